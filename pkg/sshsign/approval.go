package sshsign

import (
	"bytes"
	"slices"
)

// NamespaceApproval is the namespace of detached signatures by which several
// people stand for one text (docs/spec/tombstone.md#approvals). The text says what it
// is about: in which repository, and on which ref.
const NamespaceApproval = "rigward-approval"

// Armored cuts armored signatures that follow each other apart; what is not one
// ends up in the last.
func Armored(b []byte) (list [][]byte) {
	for len(b) > 0 {
		end := len(b)
		if i := bytes.Index(b, []byte(armorEnd)); i >= 0 {
			end = i + len(armorEnd)
		}
		list, b = append(list, b[:end]), b[end:]
	}
	return list
}

// Voices returns the names for which good verdicts speak, sorted, by the people that
// they can be: names for which one key speaks count as one person, and so do keys
// that speak for one name. Its length is how many people there are at least.
func Voices(names []string, verdicts ...Verdict) (people [][]string) {
	for _, v := range verdicts {
		var one []string
		for _, name := range names {
			if v.Speaks(name) {
				one = append(one, name)
			}
		}
		if len(one) == 0 {
			continue
		}
		people = slices.DeleteFunc(people, func(other []string) bool {
			same := slices.ContainsFunc(other, func(name string) bool { return slices.Contains(one, name) })
			if same {
				one = append(one, other...)
			}
			return same
		})
		slices.Sort(one)
		people = append(people, slices.Compact(one))
	}
	slices.SortFunc(people, slices.Compare)
	return people
}

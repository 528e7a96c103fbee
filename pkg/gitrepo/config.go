package gitrepo

import (
	"strconv"
	"strings"

	"github.com/rigward/rigward/pkg/finding"
)

type configValue struct {
	text string
	bare bool // `key` alone, without `=`
}

// Config returns all values of a key in the order in which git reads them: the
// system's, the user's, the repository's, the worktree's, then those of the
// environment; the last one wins where one is wanted. Includes are followed. A
// key without "=" has the value "". No value means that the key is not set.
//
// The key is section.name or section.subsection.name; section and name without
// regard to case, as in git.
func (r *Repo) Config(key string) ([]string, error) {
	values, err := r.configValues(key)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.text
	}
	return texts, nil
}

// ConfigLast returns the value that wins, and whether the key is set.
func (r *Repo) ConfigLast(key string) (value string, set bool, err error) {
	values, err := r.Config(key)
	if err != nil || len(values) == 0 {
		return "", false, err
	}
	return values[len(values)-1], true, nil
}

// ConfigBool returns the value that wins as git reads a boolean: true, yes, on
// and any number but 0, or the key alone; false, no, off, 0 and nothing after
// "=". Anything else is ErrInvalid.
func (r *Repo) ConfigBool(key string) (value, set bool, err error) {
	values, err := r.configValues(key)
	if err != nil || len(values) == 0 {
		return false, false, err
	}
	last := values[len(values)-1]
	if last.bare {
		return true, true, nil
	}
	switch strings.ToLower(last.text) {
	case "true", "yes", "on":
		return true, true, nil
	case "false", "no", "off", "":
		return false, true, nil
	}
	if n, err := strconv.ParseInt(last.text, 10, 32); err == nil {
		return n != 0, true, nil
	}
	return false, true, &Error{Kind: ErrInvalid,
		Message: "the value of " + finding.Path(key) + " in git's configuration is " + finding.QuoteMax(last.text, 40) + ", expected true or false",
		Hint:    "git config " + finding.Word(key) + " true"}
}

func (r *Repo) configValues(key string) ([]configValue, error) {
	r.configOnce.Do(func() { r.config, r.configErr = r.readConfig() })
	if r.configErr != nil {
		return nil, r.configErr
	}
	return r.config[foldKey(key)], nil
}

// readConfig reads the whole configuration: as it lies in plain files, else as git
// lists it, in one process. Where git refuses
// the repository, `git config` leaves its file out without a word; so the
// other child, which complains, is asked first.
func (r *Repo) readConfig() (map[string][]configValue, error) {
	if r.ctx.Err() == nil && r.knownGit() {
		return r.known, nil
	}
	type answer struct {
		stdout, stderr []byte
		code           int
		err            error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		// Without the -c that other children get: they would be listed.
		cmd, tail := r.env.bareProcess(r.ctx, r.git, "config", "--list", "-z", "--includes")
		a.stdout, a.stderr, a.code, a.err = outcome(r.ctx, cmd, tail, "git config")
		done <- a
	}()
	err := r.cat.request(nil, 0, nil)
	a := <-done
	if err != nil {
		return nil, err
	}
	if a.err != nil {
		return nil, a.err
	}
	if a.code != 0 {
		return nil, failure(r.ctx, "git config", a.stderr, nil)
	}
	return parseConfig(string(a.stdout)), nil
}

// parseConfig parses `git config --list -z`: `key LF value NUL`, or `key NUL`.
func parseConfig(list string) map[string][]configValue {
	values := make(map[string][]configValue)
	for item := range strings.SplitSeq(list, "\x00") {
		if item == "" {
			continue
		}
		key, text, found := strings.Cut(item, "\n")
		values[key] = append(values[key], configValue{text, !found})
	}
	return values
}

// foldKey writes section and name in lower case and keeps the subsection.
func foldKey(key string) string {
	first, last := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
	if first < 0 {
		return strings.ToLower(key)
	}
	return strings.ToLower(key[:first]) + key[first:last] + strings.ToLower(key[last:])
}

// ConfigSection returns the values of all keys of a section, subsections
// included, by key in lower case.
func (r *Repo) ConfigSection(section string) (map[string]string, error) {
	if _, err := r.configValues("core.bare"); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for key, values := range r.config {
		if strings.HasPrefix(key, strings.ToLower(section)+".") {
			out[key] = values[len(values)-1].text
		}
	}
	return out, nil
}

package gitrepo

import "strings"

// Refspecs are the fetch refspecs of a remote, in the order in which the
// configuration has them (git-fetch(1), <refspec>).
type Refspecs []refspec

// A refspec maps refs of the remote, src, to the refs dst that follow them
// here. A negative one has no dst.
type refspec struct {
	src, dst string
	negative bool
}

// Refspecs returns the values of remote.<name>.fetch.
func (r *Repo) Refspecs(remote string) (Refspecs, error) {
	words, err := r.Config("remote." + remote + ".fetch")
	return ParseRefspecs(words), err
}

// ParseRefspecs reads fetch refspecs. Those that name nothing to be followed
// here, as those without a ":", are left out: git itself refuses what is none.
func ParseRefspecs(words []string) Refspecs {
	var specs Refspecs
	for _, word := range words {
		if src, ok := strings.CutPrefix(word, "^"); ok {
			specs = append(specs, refspec{src: src, negative: true})
			continue
		}
		src, dst, ok := strings.Cut(strings.TrimPrefix(word, "+"), ":")
		if ok && src != "" && strings.HasPrefix(dst, "refs/") && strings.Contains(src, "*") == strings.Contains(dst, "*") {
			specs = append(specs, refspec{src: src, dst: dst})
		}
	}
	return specs
}

// Tracking returns the ref that follows a ref of the remote here, "" if none
// does: that of the first refspec that matches, as in git, unless a negative
// one takes the ref out. Names are full, as in the configuration.
func (s Refspecs) Tracking(ref string) string {
	tracking := ""
	for _, spec := range s {
		if spec.negative {
			if _, ok := mapPattern(spec.src, spec.src, ref); ok {
				return ""
			}
		} else if tracking == "" {
			tracking, _ = mapPattern(spec.src, spec.dst, ref)
		}
	}
	return tracking
}

// Source is the inverse of Tracking: the ref of the remote that a ref here
// follows, "" if it follows none. If several do, it is the first of them.
func (s Refspecs) Source(tracking string) string {
	for _, spec := range s {
		if spec.negative {
			continue
		}
		if ref, ok := mapPattern(spec.dst, spec.src, tracking); ok && s.Tracking(ref) == tracking {
			return ref
		}
	}
	return ""
}

// mapPattern maps a name that from matches to what to makes of it. The "*" of a
// pattern stands for at least nothing, slashes included.
func mapPattern(from, to, name string) (mapped string, ok bool) {
	head, tail, star := strings.Cut(from, "*")
	if !star {
		if name != from {
			return "", false
		}
		return to, true
	}
	if len(name) < len(head)+len(tail) || !strings.HasPrefix(name, head) || !strings.HasSuffix(name, tail) {
		return "", false
	}
	return strings.Replace(to, "*", name[len(head):len(name)-len(tail)], 1), true
}

package gitrepo

import "context"

// A Remote is a remote as far as it is known here by the refs that follow it.
type Remote struct {
	Refs map[string]string // by full name there, the ids that they had when they were fetched
	Head string            // full name of its default branch, "" if it is not known
}

// Remote returns what is known here of a remote.
func (r *Repo) Remote(ctx context.Context, name string) (at Remote, err error) {
	specs, err := r.followed(name)
	if err != nil {
		return at, err
	}
	at.Refs = map[string]string{}
	for ref, err := range r.Refs(ctx) {
		if err != nil {
			return at, err
		}
		if ref.Target != "" {
			continue
		}
		if there := specs.Source(ref.Name); there != "" {
			at.Refs[there] = ref.ID
		}
	}
	at.Head, _, err = r.remoteHead(name, specs)
	return at, err
}

// RemoteHead returns the full name that the default branch of a remote has
// there, "" if it is not known, and its commit as it was fetched, "" if it was
// not. It is the branch that refs/remotes/<name>/HEAD stands for (git-remote(1),
// set-head), else main or master.
func (r *Repo) RemoteHead(name string) (ref, id string, err error) {
	specs, err := r.followed(name)
	if err != nil {
		return "", "", err
	}
	return r.remoteHead(name, specs)
}

func (r *Repo) remoteHead(name string, specs Refspecs) (ref, id string, err error) {
	if head := "refs/remotes/" + name + "/HEAD"; CheckRefName(head) == nil {
		tracking, ok, err := r.SymbolicTarget(head)
		if err != nil {
			return "", "", err
		}
		if ok {
			if ref = specs.Source(tracking); ref != "" {
				id, _, err = r.Ref(tracking)
				return ref, id, err
			}
		}
	}
	for _, usual := range []string{"refs/heads/main", "refs/heads/master"} {
		if tracking := specs.Tracking(usual); tracking != "" {
			if id, ok, err := r.Ref(tracking); ok || err != nil {
				return usual, id, err
			}
		}
	}
	return "", "", nil
}

// followed returns the refspecs of a remote. Where the configuration has none,
// the refs lie where git clone puts them.
func (r *Repo) followed(name string) (Refspecs, error) {
	specs, err := r.Refspecs(name)
	if len(specs) == 0 {
		specs = ParseRefspecs([]string{"+refs/heads/*:refs/remotes/" + name + "/*"})
	}
	return specs, err
}

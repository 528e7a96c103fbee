package gitrepo

// An Account is a user of the system, by whose rights git and the hooks that it
// starts can run.
type Account struct {
	UID, GID uint32
	Groups   []uint32 // besides GID
	Name     string   // "uid 1000" where it has none
	Home     string   // "" where it has none
}

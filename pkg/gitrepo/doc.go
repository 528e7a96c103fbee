// Package gitrepo is the one door to git: the only package that starts a git
// process, and the only one that knows how git finds, stores and names things.
//
// A Repo is one repository as git itself sees it from a directory and an
// environment: with the quarantine of a push, alternates, linked worktrees,
// SHA-256, reftable, partial and shallow clones. Nothing here writes: not the
// index, not refs, not objects, not the worktree; and nothing fetches.
//
// # Objects
//
// A few small objects are read as they lie in the repository, loose or in packs,
// where the repository and git itself are of the usual form; what is returned is
// proved by its hash, and nothing is ever said to be missing. All others come
// through one long-lived `git cat-file --batch-command --buffer` (git 2.36 or
// newer), with sizes asked for before contents, so that a limit holds before
// anything is read. Object reads one, Objects many,
// Commit parses. ScanCommits walks commits with their changes against each
// parent and reads ahead while the caller works. Replace refs, grafts and the
// shallow file are not obeyed: objects are the real ones, and a history that
// is cut off says so (ErrCut) instead of looking short.
//
// # Trees
//
// Trees are parsed here, strictly, and never by a tool that repairs or skips:
// an entry that git would read in some forgiving way is a MalformedTreeError.
// Differences are computed on those trees (DiffTrees), because a tool that
// overlooks an entry lets a change pass unseen.
//
// # Errors
//
// "Could not read" is always an error and never an empty answer; callers turn
// it into exit code 2. Errors are of type *Error where a person can repair the
// cause, with the command that does; the sentinels (ErrMissing, ErrTooLarge,
// ErrCut …) are found with errors.Is.
//
// # Processes
//
// A hook on a small commit or push starts none: configuration, refs and objects
// are read without git where their files are plain, and git is asked wherever they
// are not, a file is not written as git writes it, or the git program is none that
// is known (on Linux, an executable with git's own texts in it).
//
// Git writes, through Runner, with one exception: Stage adds a new file to a plain
// index by itself, with the bytes that git add writes there.
//
// Children get an environment made on purpose from Env.Environ: git's own
// variables for this repository stay as given, whatever changes output, writes
// or asks questions goes. Ids travel on standard input, paths come separated by
// NUL; the few ids and ref names on a command line have been checked to be
// such. No output that git quotes or translates is read. Nothing here reads the
// clock or this process's environment.
package gitrepo

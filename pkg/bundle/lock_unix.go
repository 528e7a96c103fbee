//go:build unix

package bundle

// lockTarget takes the lock of a target, which holds against every user.
func lockTarget(target *dir, _ string) (unlock func(), err error) { return target.lock() }

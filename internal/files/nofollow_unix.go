//go:build unix

package files

import "golang.org/x/sys/unix"

// NoFollow are flags for os.OpenFile: a link is not followed, and what is no file is not
// waited for.
const NoFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

//go:build !unix

package rye

import "os"

// administrators: where files have no owner and mode of this kind, what the
// system keeps from other users lies in %ProgramData%, whose rights are not
// looked at here. A link never counts.
func administrators(info os.FileInfo) bool { return info.Mode()&os.ModeSymlink == 0 }

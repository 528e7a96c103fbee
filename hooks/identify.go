package hooks

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rigward/rigward/internal/files"
	"github.com/rigward/rigward/pkg/finding"
	"github.com/rigward/rigward/pkg/gitrepo"
	"github.com/rigward/rigward/pkg/policy"
)

// Identify returns the UUID that a server's repository has in its configuration
// (rigward.uuid), and gives it one if it has none.
func Identify(ctx context.Context, r *gitrepo.Repo) (uuid string, err error) {
	if uuid, _, err = r.ConfigLast("rigward.uuid"); err != nil || uuid != "" {
		return uuid, err
	}
	// Two that begin at once agree on one.
	dir := filepath.Join(r.CommonDir(), "rigward")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", &policy.Undecided{Message: "the directory " + finding.Path(filepath.ToSlash(dir)) + " cannot be made", Cause: err}
	}
	files.Share(dir)
	f, err := os.OpenFile(filepath.Join(dir, "uuid.lock"), os.O_RDWR|os.O_CREATE|files.NoFollow, 0o600)
	if err == nil {
		defer f.Close()
		files.Share(f.Name())
		err = files.Lock(f)
	}
	if err != nil {
		return "", &policy.Undecided{Message: "the lock of the repository's UUID cannot be taken", Cause: err}
	}
	again, err := gitrepo.OpenIdle(ctx, r.Env().Foreign(r.GitDir()))
	if err != nil {
		return "", err
	}
	defer again.Close()
	if uuid, _, err = again.ConfigLast("rigward.uuid"); err != nil || uuid != "" {
		return uuid, err
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // which never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	uuid = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	return uuid, Configure(ctx, r, "rigward.uuid", uuid)
}

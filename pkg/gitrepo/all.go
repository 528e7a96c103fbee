package gitrepo

import (
	"bufio"
	"context"
	"strconv"
	"strings"
)

// AllObjects calls fn for every object that is present, in no order, reachable
// or not, those of alternates and of a quarantine included. It is the fastest
// way to see a whole repository, and says nothing about who refers to what.
// The first error, of git or of fn, ends it and is returned.
func (r *Repo) AllObjects(ctx context.Context, fn func(id ID, typ string, size int64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	cmd, stderr := r.env.process(ctx, r.git, "cat-file", "--batch-all-objects", "--unordered", "--buffer",
		"--batch-check=%(objectname) %(objecttype) %(objectsize)")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return failure(ctx, "git cat-file", nil, err)
	}
	lines := bufio.NewScanner(out)
	for err == nil && lines.Scan() {
		fields := strings.Split(lines.Text(), " ")
		var size int64
		if len(fields) != 3 || !r.ValidID(fields[0]) {
			err = &Error{Kind: ErrDied, Message: "git cat-file gave an answer of unknown form"}
		} else if size, err = strconv.ParseInt(fields[2], 10, 64); err == nil {
			err = fn(fields[0], fields[1], size)
		}
	}
	if err == nil {
		err = lines.Err()
	}
	if err != nil {
		cancel()
		_ = cmd.Wait()
		return err
	}
	if err := cmd.Wait(); err != nil {
		return failure(ctx, "git cat-file", stderr.Bytes(), err)
	}
	return nil
}

package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"testing"
	"time"
)

func BenchmarkJudgeZZ(b *testing.B) {
	dir := os.Getenv("ZZDIR")
	for b.Loop() {
		var said bytes.Buffer
		r := &run{env: &Env{Stdin: &said, Stdout: &said, Stderr: &said, Environ: os.Environ(), Dir: dir, Now: time.Now, Rand: rand.Reader}, ctx: context.Background(), cmd: program().Find("send")}
		w, err := r.open()
		if err != nil {
			b.Fatal(err)
		}
		_, head, _ := w.repo.HEAD()
		c, err := w.repo.Commit(head)
		if err != nil {
			b.Fatal(err)
		}
		t, _ := w.target()
		if _, err := w.judgeRange(r.ctx, t, c.Parents[0], head, c.Parents[0], true, false); err != nil {
			b.Fatal(err)
		}
		w.close()
	}
}

package bridge

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWatchFiles: what changes right after the call is told, however late the watching
// begins, and a file that comes or goes is a change.
func TestWatchFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "main")
	for range 20 {
		moved := watchFiles(t.Context(), []string{file, file + "2"})
		if err := os.WriteFile(file, []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
		<-moved
		moved = watchFiles(t.Context(), []string{file, file + "2"})
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		<-moved
	}
}

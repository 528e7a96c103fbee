package rye

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"testing"
	"time"
)

// TestInstallChild is the child of TestInstallKilled: it installs and ends.
func TestInstallChild(t *testing.T) {
	dir, space := os.Getenv("RIGWARD_RYE_BUNDLE"), os.Getenv("RIGWARD_RYE_SPACE")
	if dir == "" {
		t.Skip("runs as a child of TestInstallKilled")
	}
	install(t, dir, space, func(o *InstallOptions) { o.AllowDowngrade = true })
}

// TestInstallKilled kills an upgrade at random moments. After the next run has
// undone what a kill left, the space is in the old state or in the new one;
// RIGWARD_DIFF=full kills 200 times.
func TestInstallKilled(t *testing.T) {
	kills := 4
	if os.Getenv("RIGWARD_DIFF") == "full" {
		kills = 200
	}
	one, two := writeBundle(t, "1.0.0", notesFiles()), newer(t)
	space := t.TempDir()
	install(t, one, space, nil)
	old := treeOf(t, space)
	other := t.TempDir()
	install(t, one, other, nil)
	install(t, two, other, nil)
	upgraded := treeOf(t, other)

	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInstallChild$", "-test.count=1")
		cmd.Env = append(os.Environ(), "RIGWARD_RYE_BUNDLE="+two, "RIGWARD_RYE_SPACE="+space)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	began := time.Now()
	if err := start().Wait(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(began)
	if got := treeOf(t, space); !reflect.DeepEqual(got, upgraded) {
		t.Fatalf("the child installed %v", got)
	}
	r := rand.New(rand.NewPCG(1, 2))
	states := map[string]int{}
	for i := range kills {
		install(t, one, space, func(o *InstallOptions) { o.AllowDowngrade = true })
		cmd := start()
		time.Sleep(time.Duration(r.Int64N(int64(whole))))
		cmd.Process.Kill()
		cmd.Wait()
		// The next run undoes what was left before it looks at anything: an
		// uninstall of another bundle, which changes nothing itself.
		if res, err := Uninstall(t.Context(), "no/such", space, UninstallOptions{State: testState}); err != nil || res.Status != "refused" {
			t.Fatalf("kill %d: %+v %v", i, res, err)
		}
		switch got := treeOf(t, space); {
		case reflect.DeepEqual(got, old):
			states["old"]++
		case reflect.DeepEqual(got, upgraded):
			states["new"]++
		default:
			t.Fatalf("kill %d, seed 1 2: the space is in between: %v", i, got)
		}
	}
	t.Log(strconv.Itoa(kills) + " kills: " + strconv.Itoa(states["old"]) + " old, " + strconv.Itoa(states["new"]) + " new")
}

package main

import (
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/pgtest"
)

// TestIdentity: PostgreSQL wants a name; another repository of the same name is
// refused, until it is renamed or moved.
func TestIdentity(t *testing.T) {
	pgtest.Need(t)
	database := pgtest.Database(t)
	one, _ := server(t, "team", database)
	two, _ := server(t, "team", database)
	must(t, one, "index")
	uuid := one.Run("config", "rigward.uuid")
	if len(uuid) != 36 {
		t.Errorf("the UUID is %q", uuid)
	}
	if got := control(two, "index"); got.code != 2 || !strings.Contains(got.err, uuid) || !strings.Contains(got.err, two.Run("config", "rigward.uuid")) || !strings.Contains(got.err, "hint: git config rigward.repository NAME") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	two.Run("config", "--unset", "rigward.repository")
	if got := control(two, "index"); got.code != 2 || !strings.Contains(got.err, "rigward.repository does not say") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	must(t, one, "rename", "team", "first")
	if name := one.Run("config", "rigward.repository"); name != "first" {
		t.Errorf("the name is %s", name)
	}
	agrees(t, one)
	two.Run("config", "rigward.repository", "first")
	if got := control(two, "ship", "--once"); got.code != 2 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	must(t, two, "move")
	agrees(t, two)
	if got := control(one, "index"); got.code != 2 {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
}

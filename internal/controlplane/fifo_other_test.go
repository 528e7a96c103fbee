//go:build !unix

package controlplane

import "testing"

func mkfifo(t *testing.T, _ string) { t.Skip("this system has no FIFOs") }

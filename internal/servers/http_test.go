//go:build linux

package servers

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rigward/rigward/internal/test/gittest"
)

// TestHTTP: nginx, fcgiwrap and git http-backend.
func TestHTTP(t *testing.T) {
	t.Parallel()
	nginx, fcgiwrap := program(t, "nginx", "nginx-light"), program(t, "fcgiwrap", "fcgiwrap")
	backend, openssl := program(t, "git-http-backend", "git"), program(t, "openssl", "openssl")
	dir, p := gittest.TempDir(t), port(t)
	etc := filepath.Join(dir, "etc")
	write(t, filepath.Join(etc, "conf.d", "unused"), "", 0o644)
	documented(t, "Smart HTTP: nginx and git http-backend", 0).
		with("/srv/git", dir).with("www-data:", me(t)+":").with("/etc/nginx", etc).with("127.0.0.1:8080", "127.0.0.1:"+p).
		with("/run/fcgiwrap.socket", filepath.Join(dir, "fcgiwrap.socket")).with("/usr/lib/git-core/git-http-backend", backend).
		with("include fastcgi_params", "include /etc/nginx/fastcgi_params").
		run(dir, shell(dir))
	hash, err := exec.Command(openssl, "passwd", "-apr1", "secret").Output()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(etc, "git-users"), "op:"+strings.TrimSpace(string(hash))+"\n", 0o644)
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += kind + "_temp_path " + dir + "/tmp-" + kind + ";\n"
	}
	write(t, filepath.Join(etc, "nginx.conf"), "daemon off;\nuser "+me(t)+";\npid "+dir+"/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"+
		temp+"include "+etc+"/conf.d/*.conf;\n}\n", 0o644)
	// As a service starts it: without HOME.
	daemon(t, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, fcgiwrap, "-c", "4", "-s", "unix:"+filepath.Join(dir, "fcgiwrap.socket"))
	await(t, "unix", filepath.Join(dir, "fcgiwrap.socket"))
	daemon(t, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, nginx, "-e", "stderr", "-p", dir, "-c", filepath.Join(etc, "nginx.conf"))
	await(t, "tcp", "127.0.0.1:"+p)
	s := &site{T: t, repo: bare(t, filepath.Join(dir, "bridge.git")), url: "http://op:secret@127.0.0.1:" + p + "/bridge.git"}
	s.scenario()
}

// Package servers holds tests only: the server hooks under the real programs
// that serve git (sshd, nginx with git http-backend, gitolite), in the layout
// and environment in which forges start hooks, and by Gerrit's flags. Each
// server is set up by the commands of docs/servers.md.
package servers

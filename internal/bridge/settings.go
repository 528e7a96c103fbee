package bridge

import "strings"

// settings are the settings of git under which git itself fails, by what it says
// then, each with the command that helps.
var settings = []struct{ says, setting, command string }{
	{"failed to read orderfile", "diff.orderFile", "git config --global --unset-all diff.orderFile"},
	{"Invalid cleanup mode", "commit.cleanup", "git config --global --unset-all commit.cleanup"},
	{"does not support --signed push", "push.gpgSign", "git config push.gpgSign if-asked"},
	{"does not support push options", "push.pushOption", "git config --add push.pushOption ''"},
	{"--mirror can't be combined with refspecs", "remote.<name>.mirror", "git config --unset-all remote.origin.mirror"},
	{"' not allowed", "protocol.allow", "git config protocol.allow user, or the key for one transport, such as protocol.file.allow"},
	{"gpg failed to sign", "commit.gpgSign", "git config commit.gpgSign false, or git config user.signingkey <a key that gpg knows>"},
	{"Couldn't load public key", "user.signingkey", "git config user.signingkey <path of a public key>"},
	{"failed to write commit object", "commit.gpgSign", "git config commit.gpgSign false, or git config user.signingkey <path of a public key>"},
	{"external filter", "filter", "git config --get-regexp '^filter\\.' names the filter that failed; it is not for messages: echo '*.md -filter' >> .gitattributes"},
	{"clean filter", "filter", "git config --get-regexp '^filter\\.' names the filter that failed; it is not for messages: echo '*.md -filter' >> .gitattributes"},
	{"bad config", "", "git config --list --show-origin names the file and its last line that can be read"},
	{"bad boolean config value", "", "git config --list --show-origin | grep -i <key>"},
	{"bad numeric config value", "", "git config --list --show-origin | grep -i <key>"},
}

// settingHint returns the command that helps where a setting makes git fail, ""
// where what git said tells of none.
func settingHint(said string) string {
	for _, s := range settings {
		if strings.Contains(said, s.says) {
			if s.setting == "" {
				return s.command
			}
			return "the setting " + s.setting + " asks for it: " + s.command
		}
	}
	return ""
}

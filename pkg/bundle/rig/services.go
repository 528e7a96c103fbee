package rig

// services are the containers that a rig starts before its agents.
type services struct {
	at       *node
	compose  string // clean path of the compose file
	commands []string
	urls     []string
}

// isProject is the rule for the name of a compose project.
var isProject = charset(func(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b == '_' || b == '-'
}, "small letters, digits and _ -")

// services judges the services block of a rig; nil if there is none.
func (c *checker) services(root *node) *services {
	n, at := c.mapping(root, "", "services", false)
	if n == nil {
		return nil
	}
	s := &services{at: n}
	c.word(n, at, "kind", true, serviceKinds)
	p, _ := c.str(n, at, "compose_file", true, cleanRefRule)
	s.compose, _ = cleanRef(p)
	c.str(n, at, "project_name", false, beginning(isProject))
	c.strings(n, at, "profiles", func(i *node, f string) { c.strNode(i, f, notEmpty) })
	c.word(n, at, "down_policy", false, downPolicies)
	c.maps(n, at, "wait_for", false, func(w *node, at string) {
		targets := 0
		for _, key := range []string{"service", "url", "tcp"} {
			v, tn := c.str(w, at, key, false, nil)
			if tn != nil && v != "" {
				targets++
			}
			if key == "url" && v != "" {
				s.urls = append(s.urls, v)
			}
		}
		if targets != 1 {
			c.wrongValue(at, w, "names %d targets, expected one of service, url, tcp", targets)
		}
		if w.get("service") != nil {
			c.word(w, at, "condition", true, waitConditions)
		} else if cond := w.get("condition"); cond != nil {
			c.wrongValue(dot(at, "condition"), cond, "is only for a service")
		}
		c.unknown(w, at, "service", "url", "tcp", "condition")
	})
	if sf, at := c.mapping(n, at, "surfaces", false); sf != nil {
		c.maps(sf, at, "urls", false, func(u *node, at string) {
			c.str(u, at, "name", true, notEmpty)
			c.str(u, at, "url", true, notEmpty)
			c.unknown(u, at, "name", "url")
		})
		c.maps(sf, at, "commands", false, func(u *node, at string) {
			c.str(u, at, "name", true, notEmpty)
			c.str(u, at, "command", true, notEmpty)
			c.unknown(u, at, "name", "command")
		})
		c.unknown(sf, at, "urls", "commands")
	}
	c.maps(n, at, "checkpoints", false, func(h *node, at string) {
		c.str(h, at, "id", true, notEmpty)
		for _, key := range []string{"export", "import"} {
			if v, _ := c.str(h, at, key, key == "export", nil); v != "" {
				s.commands = append(s.commands, v)
			}
		}
		c.unknown(h, at, "id", "export", "import")
	})
	c.unknown(n, at, "kind", "compose_file", "project_name", "profiles", "down_policy", "wait_for", "surfaces", "checkpoints")
	return s
}

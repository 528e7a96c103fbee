package yamlprofile

import "regexp"

// The rows of docs/spec/envelope.md#types, as they stand there.
var (
	nullPattern   = regexp.MustCompile(`^(~|null|Null|NULL|)$`)
	boolPattern   = regexp.MustCompile(`^(true|True|TRUE|false|False|FALSE)$`)
	numberPattern = regexp.MustCompile(`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

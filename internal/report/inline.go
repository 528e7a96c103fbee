package report

// MarkdownCode returns untrusted text in the typeface of code, for a place
// where GitHub Flavored Markdown takes inline content, a table cell too. It
// makes no markup, HTML, link, mention or emoji; control characters are
// escaped.
func MarkdownCode(s string) string { return markdownCode(s) }

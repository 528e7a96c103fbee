package controlplane

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxWord is how many bytes of a word count.
const maxWord = 60

// splitWords cuts a text into words (docs/spec/controlplane.md#search): letters, marks
// and digits that stand together, without case and in the form of NFKC. A
// character of a writing without spaces is a word of its own.
func splitWords(text string, word func(string)) {
	if plain := strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) < 0; plain {
		text = strings.ToLower(text)
	} else {
		text = norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text)))
	}
	start := -1
	end := func(i int) {
		if start >= 0 {
			word(strings.ToValidUTF8(text[start:min(i, start+maxWord)], ""))
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case r <= unicode.MaxASCII:
			if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
				if start < 0 {
					start = i
				}
			} else {
				end(i)
			}
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			end(i)
			word(string(r))
		case !unicode.In(r, unicode.L, unicode.M, unicode.N) || r == unicode.ReplacementChar:
			end(i)
		case start < 0:
			start = i
		}
	}
	end(len(text))
}

// wordsOf are the words of texts, each once and in alphabetical order: what is
// kept does not say what was said.
func wordsOf(texts ...string) string {
	var room [256]string // mostly enough, and not garbage of each message
	all := room[:0]
	for _, text := range texts {
		splitWords(text, func(w string) {
			if w != "" {
				all = append(all, w)
			}
		})
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// A Word is what a message must have to be found.
type Word struct {
	text   string
	begins bool // a word that begins so does
}

// ParseWords reads what is searched for; none is returned where there is no word in
// it. A word that ends in * stands for all that begin so.
func ParseWords(texts []string) (words []Word) {
	for _, text := range strings.Fields(strings.Join(texts, " ")) {
		first := len(words)
		splitWords(text, func(w string) {
			if w != "" {
				words = append(words, Word{text: w})
			}
		})
		if len(words) > first && strings.HasSuffix(text, "*") {
			words[len(words)-1].begins = true
		}
	}
	return words
}

// match is the value of the parameter words. Words hold letters, marks and digits
// alone, so that nothing in them means anything to a database.
func match(postgres bool, words []Word) string {
	var parts []string
	for _, w := range words {
		quote, begins := `"`, "*"
		if postgres {
			quote, begins = "'", ":*"
		}
		part := quote + w.text + quote
		if w.begins {
			part += begins
		}
		parts = append(parts, part)
	}
	and := " AND "
	if postgres {
		and = " & "
	}
	return strings.Join(parts, and)
}

// vector is the expression that PostgreSQL indexes: the words as they are, without
// a parser that would read addresses and numbers out of them.
func vector(column string) string { return "array_to_tsvector(string_to_array(" + column + ", ' '))" }

// searchSchema makes the index of the words of messages.
func searchSchema(postgres bool) string {
	if postgres {
		return "CREATE INDEX bridge_messages_words ON bridge_messages USING gin (" + vector("words") + ") WHERE words IS NOT NULL;"
	}
	// The words are in bridge_messages alone; the tokenizer takes apart what a space does.
	return `CREATE VIRTUAL TABLE rigward_search USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');
CREATE TRIGGER bridge_messages_words_new AFTER INSERT ON bridge_messages WHEN NEW.words IS NOT NULL
BEGIN INSERT INTO rigward_search (rowid, words) VALUES (NEW.id, NEW.words); END;
CREATE TRIGGER bridge_messages_words_changed AFTER UPDATE OF words ON bridge_messages WHEN NEW.words IS NOT OLD.words
BEGIN
  DELETE FROM rigward_search WHERE rowid = OLD.id;
  INSERT INTO rigward_search (rowid, words) SELECT NEW.id, NEW.words WHERE NEW.words IS NOT NULL;
END;
CREATE TRIGGER bridge_messages_words_gone AFTER DELETE ON bridge_messages WHEN OLD.words IS NOT NULL
BEGIN DELETE FROM rigward_search WHERE rowid = OLD.id; END;`
}

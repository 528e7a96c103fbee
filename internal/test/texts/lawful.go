package texts

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
)

// spoken are languages in more than 20 scripts, of which the CLDR data in
// golang.org/x/text has the names of languages and regions.
var spoken = strings.Fields("am ar as be bg bn bo ccp chr cs cy da de dz el en es et eu fa fi fr ga gl gu ha he hi hr hu hy id is it ja ka kk km kn ko kok " +
	"ks ku ky lo lt lv mk ml mn mr ms mt my mzn nb ne nl or pa pl ps pt ro ru rw sd si sk sl sq sr sv sw ta te tg th ti tk tr tt ug uk ur uz vi yi yo yue zh zh-Hant zu")

// written are texts in which characters that are not seen do what they are for.
var written = []string{
	// Persian, Kurdish, Urdu, Arabic
	"می\u200cخواهم خانه\u200cای بخرم.", "کتاب\u200cها را خوانده\u200cام", "نمی\u200cدانم", "۱۴۴۵ ه\u200d", "دەزگایەکى\u200cتر", "پہلا\u200c خط", "بی\u200cنظیر",
	// Hindi, Marathi, Bengali, Malayalam, Kannada, Sinhala, Tamil, Telugu, Nepali
	"क्\u200cष क्\u200dष", "श्री\u200dमान", "र\u200d्य র\u200d্যাব", "ন্\u200cটু", "അവന്\u200d വന്നു", "കണ്\u200d", "ರ\u200d್ಯಾಂಕ್", "ශ්\u200dරී ලංකාව", "ක්\u200dරියාව", "க்\u200cஷ", "క్\u200cష", "गर्\u200dयो",
	// Thai, Lao, Khmer, Burmese with places to break a line
	"ภาษา\u200bไทย", "ພາສາ\u200bລາວ", "ភាសា\u200bខ្មែរ\u200bពិបាក", "မြန်မာ\u200bစာ", "ខ្ញុំ\u200b។",
	// Hebrew and Arabic with Latin between
	"הגרסה \u2068rigward 1.2\u2069 מוכנה", "النسخة \u2066v1.2\u2069 جاهزة", "\u202bשלום, world\u202c", "\u2067مرحبا\u2069 said Ada", "C++\u200e היא שפה",
	"(א)\u200f 1.", "תאריך: 5/1/2026\u200f.", "\u202d123-456\u202c טלפון", "Hello \u2068Anna\u2069, you have \u206812\u2069 mails", "\u2067א \u2066b\u2069 ג\u2069",
	"שָׁ\u034fֽ", "\u061c12% نسبة",
	// German, English
	"Donau\u00addampf\u00adschiff\u00adfahrt", "hy\u00adphen\u00adation", "Straße, naïve, œuvre, ĳ, ǆ",
	// Japanese and Chinese, with registered forms
	"葛\U000e0100城市と葛\U000e0101飾区", "辻\U000e0100さん", "邉\U000e0102", "全角　空白", "漢字かな交じり文。",
	// Korean, old and new
	"한국어 텍스트", "\u1100\u1160\u11a8", "\u115f\u1161",
	// Mongolian
	"ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ᠌", "ᠭᠠ\u180eᠠ", "ᠠ\u180b",
	// Braille, Tibetan, Ethiopic, Cherokee, Georgian, Armenian, N'Ko, Syriac, Thaana
	"⠓⠑⠇⠇⠕⠀⠺⠕⠗⠇⠙", "བོད་སྐད་", "አማርኛ፣", "ᏣᎳᎩ", "ქართული", "հայերեն", "ߒߞߏ", "ܣܘܪܝܝܐ", "ދިވެހި",
	// symbols and emoji
	"▶ Asking ⏸ Deciding ✅ done ❌ no ⚠️ care", "❤️ ☎︎ ☎️ ™️ ©️ 1️⃣ #️⃣ *️⃣", "👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 🏳️\u200d🌈 🏴\u200d☠️ ❤️\u200d🔥 👁️\u200d🗨️", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f 🏴\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f", "🚀️ to the moon", "👍🏽️", "🇩🇪🇫🇷🇯🇵",
	"∩︀ ≨︀ 0︀ ⋛︀", "box ┌─┐ │ │ └─┘ ░▒▓", "“quotes” ‘single’ – dash — dash … \u00a0nbsp \u202f thin", "π ≈ 3.14159, ∀x∈ℝ: ∃y", "e\u0301 o\u0308 n\u0303",
	// what terminals print
	"\x1b[31mred\x1b[0m \x1b[1;32mgreen\x1b[m", "a\tb\r\nc\f\v", "line\u0085line",
	// writing about it
	"U+200B ZERO WIDTH SPACE is written &#8203; or &#x200B;, and a tag is &#xE0041; in HTML", `the escape "\u200b" in Go`,
}

// Lawful returns texts without anything hidden, by the script or kind that they
// are in: more than 2,000 in more than 20 scripts.
func Lawful() (all []Text) {
	for _, tag := range spoken {
		l := language.Make(tag)
		languages, regions := display.Languages(l), display.Regions(l)
		if languages == nil || regions == nil {
			continue
		}
		var names []string
		for _, other := range spoken {
			if name := languages.Name(language.Make(other)); name != "" {
				names = append(names, strings.ReplaceAll(name, "\ufeff", "")) // one of Amharic has it
			}
		}
		for a := 'A'; a <= 'Z'; a++ {
			for b := 'A'; b <= 'Z'; b++ {
				if r, err := language.ParseRegion(string(a) + string(b)); err == nil {
					if name := regions.Name(r); name != "" {
						names = append(names, strings.ReplaceAll(name, "\ufeff", ""))
					}
				}
			}
		}
		for i := 0; i+6 <= len(names); i += 6 {
			all = append(all, Text{Name: fmt.Sprintf("%s %d", tag, i/6), Body: strings.Join(names[i:i+6], ", ") + ".\n"})
		}
	}
	for i, s := range written {
		all = append(all, Text{Name: fmt.Sprintf("written %d", i), Body: s + "\n"})
	}
	for a := rune(0x1f1e6); a <= 0x1f1ff; a++ {
		var b strings.Builder
		for other := rune(0x1f1e6); other <= 0x1f1ff; other++ {
			b.WriteString(string(a) + string(other) + " ")
		}
		all = append(all, Text{Name: fmt.Sprintf("flags %c", a), Body: strings.TrimSpace(b.String()) + "\n"})
	}
	return all
}

// Listed returns the sequences that Unicode lists (emoji, their variations and
// parts, standardised variants) as Debian's package unicode-data has them; nil
// without it.
func Listed() (all []Text) {
	for _, name := range []string{"emoji/emoji-test.txt", "emoji/emoji-sequences.txt", "emoji/emoji-zwj-sequences.txt", "emoji/emoji-variation-sequences.txt",
		"StandardizedVariants.txt", "NamedSequences.txt"} {
		f, err := os.Open(filepath.Join("/usr/share/unicode", name))
		if err != nil {
			return nil
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			line, _, _ := strings.Cut(s.Text(), "#")
			field, rest, _ := strings.Cut(line, ";")
			if name == "NamedSequences.txt" {
				field = rest
			}
			var seq []rune
			for code := range strings.FieldsSeq(field) {
				if from, _, more := strings.Cut(code, ".."); more {
					code = from
				}
				r, err := strconv.ParseUint(code, 16, 32)
				if err != nil {
					continue
				}
				seq = append(seq, rune(r))
			}
			if len(seq) > 0 {
				all = append(all, Text{Name: fmt.Sprintf("%s %x", name, seq), Body: "a " + string(seq) + " b\n"})
			}
		}
		f.Close()
	}
	return all
}

// What other programs read in a file: base64 lines on stdin, one JSON answer a
// line on stdout, {"yaml": …, "gray-matter": …}. The arguments are the
// directories of the packages yaml and gray-matter.
const { createInterface } = require("node:readline");
const YAML = require(process.argv[2]);
const matter = require(process.argv[3]);

// A value by what it is: {s: text}, {d: milliseconds}, [items] or {x: anything else}.
function tell(v) {
  if (typeof v === "string") return { s: v };
  if (v instanceof Date) return { d: v.getTime() };
  if (Array.isArray(v)) return v.map(tell);
  return { x: String(v) };
}

function read(parse) {
  let data;
  try {
    data = parse();
  } catch (e) {
    return { error: String(e.message).split("\n")[0] };
  }
  if (data === null || typeof data !== "object" || Array.isArray(data)) return { error: "no mapping" };
  const fields = {};
  for (const [k, v] of Object.entries(data)) fields[k] = tell(v);
  return { fields };
}

(async () => {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const file = Buffer.from(line, "base64").toString("utf8");
    const fenced = /^\uFEFF?---(?:\r\n|\n)([\s\S]*?)(?<=^|\n)---(?:\r?\n|$)/.exec(file);
    const answer = {
      yaml: read(() => { if (!fenced) throw new Error("no fences"); return YAML.parse(fenced[1]); }),
      "gray-matter": read(() => matter(file, {}).data),
    };
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
})();

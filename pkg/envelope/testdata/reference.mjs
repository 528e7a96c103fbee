// Answers for the reference client: one JSON request a line on stdin, one JSON
// answer a line on stdout. RIGWARD_NPM_CLIENT names its node_modules.
// Its JSON Schema engine also judges by the schema file given as argument.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const modules = process.env.RIGWARD_NPM_CLIENT;
const engine = `${modules}/@mcptoolshop/rig-bridge/dist/engine/index.js`;
const { parseEnvelope, validateFrontmatter, bodyHash, markerToStatusClass } = await import(pathToFileURL(engine));
const { default: Ajv } = await import(pathToFileURL(`${modules}/ajv/dist/2020.js`));
const bySchemaFile = new (Ajv.default ?? Ajv)({ strict: true, allowUnionTypes: true }).compile(JSON.parse(readFileSync(process.argv[2], "utf8")));

function judge(file) {
  let envelope;
  try {
    envelope = parseEnvelope(Buffer.from(file, "base64").toString("utf8"));
  } catch (e) {
    return { parsed: false, error: String(e.message) };
  }
  const answer = { parsed: true, valid: false, hash: bodyHash(envelope.body), frontmatter: null };
  try {
    answer.valid = validateFrontmatter(envelope.frontmatter).valid === true;
    answer.bySchemaFile = bySchemaFile(envelope.frontmatter);
    answer.frontmatter = envelope.frontmatter;
    answer.class = markerToStatusClass(envelope.frontmatter.status);
  } catch (e) {
    answer.error = String(e.message);
  }
  return answer;
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  let text;
  try {
    text = JSON.stringify(judge(JSON.parse(line).file));
  } catch (e) {
    text = JSON.stringify({ parsed: true, valid: false, error: String(e.message) });
  }
  process.stdout.write(text + "\n");
}

// Package drift judges the bundles that a policy names (docs/policy.md,
// "bundles"): what the sources of a commit give, beside the bundle that is
// committed and beside what the sources of the base gave.
//
// Everything is read from the commits' trees; the work tree, the index and the
// clock play no part. The tar stream of each bundle is built twice under
// different conditions, and the two must be equal to the last byte, so that a
// repeatable build is seen and not assumed. The committed bundle is judged by all rules of its
// format, as the untrusted archive that it is, and then compared with the
// rebuilt one by the digest of the tar stream, or for Rye bundles by
// manifest_digest.
//
// Findings are of the rule bundle-drift, and of bundle-CODE with the codes of
// the format. An error means that nothing was decided.
package drift

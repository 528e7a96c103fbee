// Package image reads container images: it looks at what a base image holds (docs/spec/agentbundle.md#base-image), in a
// registry, an OCI layout or a docker archive. Nothing of an image is run, and nothing that a registry says is believed
// before a digest shows it (docs/spec/agentbundle.md#registries).
package image

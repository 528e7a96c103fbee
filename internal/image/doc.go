// Package image reads and composes container images: it looks at what a base image holds
// (docs/spec/agentbundle.md#base-image), in a registry, an OCI layout or a docker archive, and puts the layer of a bundle
// on it (docs/spec/agentbundle.md#image). Nothing of an image is run, and nothing that a registry says is believed before a
// digest shows it (docs/spec/agentbundle.md#registries).
package image

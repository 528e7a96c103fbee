// Package image reads, composes and carries container images: it looks at what a base image holds
// (docs/spec/agentbundle.md#base-image), in a registry, an OCI layout or a docker archive, puts the layer of a bundle on it
// (docs/spec/agentbundle.md#image), and takes bundles with their proof to registries and from there
// (docs/spec/agentbundle.md#artifacts). Nothing of an image is run, and nothing that a registry says is believed before a
// digest shows it (docs/spec/agentbundle.md#registries).
package image

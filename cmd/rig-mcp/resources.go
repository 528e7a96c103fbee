package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const scheme = "rig-bridge://"

var notFound = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such resource"}

// plainly refuses a URI with characters that no URI has: the SDK would write it
// into an error that is no JSON, and end the connection.
func plainly(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if r, ok := req.(*mcp.ReadResourceRequest); ok && r.Params != nil && strings.ContainsFunc(r.Params.URI, func(c rune) bool { return !strings.ContainsRune(uriCharacters, c) }) {
			return nil, notFound
		}
		return next(ctx, method, req)
	}
}

const uriCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&'()*+,;=%"

// resources adds threads and messages, in the same form as the tools give them.
func (s *server) resources(m *mcp.Server) {
	m.AddReceivingMiddleware(plainly)
	m.AddResource(&mcp.Resource{URI: scheme + "threads", Name: "threads", Description: "Threads with messages to this rig", MIMEType: "text/plain"}, s.resource)
	m.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: scheme + "thread/{thread}", Name: "thread", Description: "The messages of a thread", MIMEType: "text/plain"}, s.resource)
	m.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: scheme + "message/{thread}/{file}", Name: "message", Description: "One message", MIMEType: "text/plain"}, s.resource)
}

func (s *server) resource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	kind, rest, _ := strings.Cut(strings.TrimPrefix(uri, scheme), "/")
	thread, file, one := strings.Cut(rest, "/")
	file, err := url.PathUnescape(file)
	var r *reply
	var p *problem
	switch {
	case !strings.HasPrefix(uri, scheme) || err != nil:
	case kind == "threads" && rest == "":
		r, p = runStatus(s, ctx, nil)
	case kind == "thread" && thread != "" && !one:
		r, p = s.thread(ctx, thread, "", 50, 0, false)
	case kind == "message" && thread != "" && file != "":
		r, p = s.thread(ctx, thread, file, 1, 0, false)
	}
	if r == nil || p != nil {
		return nil, notFound
	}
	var texts []string
	for _, c := range r.contents() {
		texts = append(texts, c.(*mcp.TextContent).Text)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: strings.Join(texts, "\n\n")}}}, nil
}

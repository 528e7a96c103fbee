package rye

import "github.com/rigward/rigward/pkg/bundle"

func messages(fs []*bundle.Finding) (list []string) {
	for _, f := range fs {
		list = append(list, f.Code+" "+f.Path+": "+f.Message)
	}
	return list
}

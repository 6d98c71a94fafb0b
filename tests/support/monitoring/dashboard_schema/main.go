// Command dashboard-schema checks dashboards by Grafana's schema, with every panel and query in them. An unknown field, a
// value of a wrong type and a missing field are errors. It prints them, and ends with 1.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	code := 0
	for _, file := range os.Args[1:] {
		if problem := check(file); problem != "" {
			fmt.Printf("%s:\n%s\n", file, problem)
			code = 1
		}
	}
	os.Exit(code)
}

func check(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	var board dashboard.Dashboard
	// The library returns an empty list of errors that is not nil, so only its text tells.
	if problem := textOf(board.UnmarshalJSONStrict(text)); problem != "" {
		return problem
	}
	return textOf(board.Validate())
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

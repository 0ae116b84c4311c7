package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"
	"sigs.k8s.io/yaml"
)

type out struct {
	Decode   string   `json:"decode"`
	Errors   []string `json:"errors"`
	Warnings []string `json:"warnings"`
	Panic    string   `json:"panic"`
}

func one(line []byte) (o out) {
	defer func() {
		if r := recover(); r != nil {
			o.Panic = fmt.Sprint(r)
		}
	}()
	csv := v1alpha1.ClusterServiceVersion{}
	if err := yaml.Unmarshal(line, &csv); err != nil {
		o.Decode = err.Error()
		return
	}
	add := func(rs []errors.ManifestResult) {
		for _, r := range rs {
			for _, e := range r.Errors {
				o.Errors = append(o.Errors, fmt.Sprintf("%s|%v|%s", e.Field, e.BadValue, e.Detail))
			}
			for _, e := range r.Warnings {
				o.Warnings = append(o.Warnings, fmt.Sprintf("%s|%v|%s", e.Field, e.BadValue, e.Detail))
			}
		}
	}
	add(validation.ClusterServiceVersionValidator.Validate(&csv))
	b := &manifests.Bundle{Name: csv.Name, CSV: &csv, CompressedSize: 1, Size: 1}
	add(validation.BundleValidator.Validate(b))
	func() {
		defer func() {
			if r := recover(); r != nil {
				o.Panic = fmt.Sprint(r)
			}
		}()
		add(validation.OperatorHubV2Validator.Validate(b))
	}()
	add(validation.StandardCapabilitiesValidator.Validate(b))
	add(validation.StandardCategoriesValidator.Validate(b))
	add(validation.GoodPracticesValidator.Validate(b))
	return
}

func main() {
	s := bufio.NewScanner(os.Stdin)
	s.Buffer(make([]byte, 1<<20), 64<<20)
	w := json.NewEncoder(os.Stdout)
	for s.Scan() {
		w.Encode(one(s.Bytes()))
	}
}

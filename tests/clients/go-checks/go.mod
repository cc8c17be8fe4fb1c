module almandine-checks

go 1.26.0

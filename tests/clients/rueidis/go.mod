module almandine-client-rueidis

go 1.26.0

require almandine-checks v0.0.0

replace almandine-checks => ../go-checks

require github.com/redis/rueidis v1.0.79

require golang.org/x/sys v0.47.0 // indirect

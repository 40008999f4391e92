// What tests have the client of Go do: `client ways_in`, `client write` or `client read`.
package main

import (
	"log"
	"os"
)

func main() {
	switch os.Args[1] {
	case "ways_in":
		waysIn()
	case "write":
		write(os.Args[2], os.Args[3], os.Args[4])
	case "read":
		read(os.Args[2], os.Args[3], os.Args[4])
	default:
		log.Fatalf("nothing is called %s", os.Args[1])
	}
}

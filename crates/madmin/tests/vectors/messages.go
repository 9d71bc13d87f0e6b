// Prints messages that the real madmin-go can decrypt, as test vectors.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"github.com/minio/madmin-go/v3"
	"github.com/secure-io/sio-go"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/pbkdf2"
)

type vector struct {
	Algorithm  byte   `json:"algorithm"`
	Secret     string `json:"secret"`
	PlainBytes int    `json:"plain_bytes"`
	Header     string `json:"header"`
	Message    string `json:"message,omitempty"`
	Sha256     string `json:"sha256"`
}

func main() {
	var all []vector
	for algorithm := byte(0); algorithm < 3; algorithm++ {
		for _, size := range []int{0, 1, 27, 16384, 16385, 40000} {
			secret := fmt.Sprintf("a-secret-of-%d-%d-ä", algorithm, size)
			plain := make([]byte, size)
			for i := range plain {
				plain[i] = byte(i % 251)
			}
			salt, nonce := make([]byte, 32), make([]byte, 8)
			for i := range salt {
				salt[i] = byte(i*7) + algorithm
			}
			for i := range nonce {
				nonce[i] = byte(i*13 + size)
			}
			var key []byte
			cipher := sio.AES_256_GCM
			if algorithm == 2 {
				key = pbkdf2.Key([]byte(secret), salt, 8192, 32, sha256.New)
			} else {
				key = argon2.IDKey([]byte(secret), salt, 1, 64*1024, 4, 32)
			}
			if algorithm == 1 {
				cipher = sio.ChaCha20Poly1305
			}
			stream, err := cipher.Stream(key)
			if err != nil {
				panic(err)
			}
			message := bytes.NewBuffer(nil)
			message.Write(salt)
			message.WriteByte(algorithm)
			message.Write(nonce)
			writer := stream.EncryptWriter(message, nonce, nil)
			writer.Write(plain)
			writer.Close()
			opened, err := madmin.DecryptData(secret, bytes.NewReader(message.Bytes()))
			if err != nil || !bytes.Equal(opened, plain) {
				panic("madmin-go does not decrypt the vector")
			}
			sum := sha256.Sum256(message.Bytes())
			row := vector{Algorithm: algorithm, Secret: secret, PlainBytes: size,
				Header: hex.EncodeToString(message.Bytes()[:41]), Sha256: hex.EncodeToString(sum[:])}
			if size < 100 {
				row.Message = hex.EncodeToString(message.Bytes())
			}
			all = append(all, row)
		}
	}
	// One message as madmin-go itself makes it, with a random salt and nonce.
	sealed, err := madmin.EncryptData("minioadmin", []byte(`{"secretKey":"of-anna-1","status":"enabled"}`))
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(sealed)
	all = append(all, vector{Algorithm: sealed[32], Secret: "minioadmin", PlainBytes: -1,
		Header: hex.EncodeToString(sealed[:41]), Message: hex.EncodeToString(sealed), Sha256: hex.EncodeToString(sum[:])})
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	encoder.Encode(all)
}

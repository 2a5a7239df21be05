// Sends the email of an invoice through Postrider: send INVOICE RECIPIENT
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"shop/postriderv1"
)

// send repeats the call under its key: it may have been accepted, and is never accepted twice.
func send(emails postriderv1.EmailServiceClient, request *postriderv1.SendEmailRequest) (*postriderv1.SendEmailResponse, error) {
	for pause := 200 * time.Millisecond; ; pause *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		response, err := emails.SendEmail(metadata.AppendToOutgoingContext(ctx, "x-client-id", "billing"), request)
		cancel()
		code := status.Code(err)
		repeat := code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.ResourceExhausted
		if !repeat || pause > 5*time.Second {
			return response, err
		}
		time.Sleep(pause)
	}
}

// violations are what is wrong with the request, by field.
func violations(err error) []*errdetails.BadRequest_FieldViolation {
	for _, detail := range status.Convert(err).Details() {
		if badRequest, ok := detail.(*errdetails.BadRequest); ok {
			return badRequest.FieldViolations
		}
	}
	return nil
}

func main() {
	invoice, recipient := os.Args[1], os.Args[2]
	// A newer gRPC also has grpc.NewClient and insecure.NewCredentials, and prefers them.
	connection, err := grpc.Dial("127.0.0.1:50051", grpc.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()

	request := &postriderv1.SendEmailRequest{
		IdempotencyKey: "invoice-" + invoice,
		Email: &postriderv1.Email{
			From:         &postriderv1.Mailbox{Address: "billing@shop.example", Name: "Shop"},
			To:           []*postriderv1.Mailbox{{Address: recipient}},
			Subject:      "Your invoice " + invoice,
			Text:         "It is attached.",
			DocumentType: "INVOICE",
		},
	}
	accepted, err := send(postriderv1.NewEmailServiceClient(connection), request)
	if err != nil {
		for _, violation := range violations(err) {
			fmt.Printf("%s: %s\n", violation.Field, violation.Description)
		}
		log.Fatal(err)
	}
	fmt.Println(accepted.MessageId, accepted.Status, accepted.Deduplicated)
}

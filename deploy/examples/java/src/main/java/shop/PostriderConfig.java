package shop;

import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.stub.MetadataUtils;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import postrider.v1.EmailServiceGrpc;
import postrider.v1.EmailServiceGrpc.EmailServiceBlockingStub;

/** One channel for the whole application: it connects by itself, also again after Postrider was restarted. */
@Configuration
public class PostriderConfig {
    @Bean(destroyMethod = "shutdown")
    public ManagedChannel postrider() {
        return ManagedChannelBuilder.forTarget("127.0.0.1:50051").usePlaintext().build();
    }

    @Bean
    public EmailServiceBlockingStub emails(ManagedChannel postrider) {
        Metadata client = new Metadata();
        client.put(Metadata.Key.of("x-client-id", Metadata.ASCII_STRING_MARSHALLER), "billing");
        return EmailServiceGrpc.newBlockingStub(postrider)
                .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(client));
    }
}

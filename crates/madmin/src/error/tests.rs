use super::*;

async fn document(error: &ApiError) -> (u16, serde_json::Value) {
    let response = refusal(error, "/minio/admin/v3/x", "id-7");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn errors_have_the_codes_of_minio() {
    for (error, status, code) in [
        (ApiError::from(admin::AdminError::NoSuchUser), 404, "XMinioAdminNoSuchUser"),
        (ApiError::from(admin::AdminError::NoSuchGroup), 404, "XMinioAdminNoSuchGroup"),
        (ApiError::bad_request("No."), 400, "XMinioAdminInvalidArgument"),
        (ApiError::unauthenticated("No."), 403, "AccessDenied"),
        (ApiError::denied("admin:ListUsers"), 403, "AccessDenied"),
        (missing("No."), 501, "NotImplemented"),
        (no_such_key(admin::AdminError::NoSuchUser.into()), 404, "XMinioInvalidIAMCredentials"),
    ] {
        let (shown, document) = document(&error).await;
        assert_eq!((shown, &document["Code"]), (status, &code.into()));
        assert_eq!(document["RequestId"], "id-7");
        assert_eq!(document["Resource"], "/minio/admin/v3/x");
    }
}

use super::*;

#[test]
fn an_error_of_the_provider_is_shown_as_text_with_a_remedy() {
    let said = ProviderError::new("access_denied", "<script>alert(1)</script>");
    let notes = RequestNotes::default();
    let refusal = Refusal::Provider(said);
    let shown = refusal.said().into_string();
    assert!(shown.contains("&lt;script&gt;") && !shown.contains("<script>"), "{shown}");
    assert_eq!(refused(&refusal, &notes).status(), StatusCode::FORBIDDEN);
    assert_eq!(notes.take().code.as_deref(), Some("ProviderRefused"));
    assert!(refusal.remedy().contains("assignment"));
    let client = Refusal::Provider(ProviderError::new("invalid_client", ""));
    assert!(client.remedy().contains("client_secret_file"));
    let other = Refusal::Provider(ProviderError::new("temporarily_unavailable", ""));
    assert!(other.remedy().contains("Log in again"));
}

#[test]
fn the_address_of_an_unreachable_provider_is_not_shown() {
    let why = "tcp connect error: 10.1.2.3:443".to_owned();
    let refusal = Refusal::from(WebLoginError::Issuer(CodeError::Unreachable(why)));
    assert_eq!(refusal.status(), StatusCode::BAD_GATEWAY);
    let shown = format!("{} {}", refusal.sentence(), refusal.said().into_string());
    assert!(!shown.contains("10.1.2.3"), "{shown}");
}

#[test]
fn a_code_that_the_provider_refuses_is_an_error_of_the_provider() {
    let said = ProviderError::new("invalid_grant", "the code was used");
    let error = WebLoginError::Issuer(CodeError::Refused(said.clone()));
    assert_eq!(Refusal::from(error), Refusal::Provider(said));
    let nonce = Refusal::from(WebLoginError::Issuer(CodeError::Nonce));
    assert_eq!((nonce.status(), nonce.code().as_ref()), (StatusCode::FORBIDDEN, "WrongNonce"));
}

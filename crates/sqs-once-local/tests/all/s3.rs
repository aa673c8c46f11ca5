//! Tests the local S3 with requests as SDKs send them.

use crate::support::{address, http};
use sqs_once_local::LocalS3;

#[tokio::test]
async fn an_object_is_a_file_and_nothing_outside_of_the_folder_can_be_reached() {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("s3");
    std::fs::create_dir_all(objects.join("bodies/in")).unwrap();
    std::fs::write(objects.join("bodies/in/c 7"), "by hand").unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    let s3 = LocalS3::start(&objects, 0).await.unwrap();
    let put = "PUT /bodies/new/one";
    let streaming = "x-amz-content-sha256: STREAMING-A\r\n";
    for (request, headers, status, body) in [
        ("GET /bodies/in/c%207?x-id=GetObject", "", 200, "by hand"),
        ("HEAD /bodies/in/c%207", "", 200, ""),
        (&*format!("{put}?x-id=PutObject"), "", 200, ""),
        ("GET /bodies/new/one", "", 200, "new"),
        (put, "If-None-Match: *\r\n", 501, "NotImplemented"),
        (put, streaming, 501, "NotImplemented"),
        ("GET /bodies/nothing", "", 404, "NoSuchKey"),
        ("GET /bodies/in", "", 404, "NoSuchKey"),
        ("GET /../secret", "", 400, "InvalidURI"),
        ("GET /bodies/%2e%2e/%2e%2e/secret", "", 400, "InvalidURI"),
        ("GET /bodies/new/one?uploads", "", 501, "NotImplemented"),
        ("GET /bodies?list-type=2", "", 501, "NotImplemented"),
    ] {
        let (method, path) = request.split_once(' ').unwrap();
        let answer = http(address(&s3.endpoint()), method, path, headers, "new").await;
        assert_eq!(answer.status, status, "{request} {headers}");
        assert!(answer.body.contains(body), "{request}: {}", answer.body);
    }
    let file = std::fs::read_to_string(objects.join("bodies/new/one"));
    assert_eq!(file.unwrap(), "new");
}

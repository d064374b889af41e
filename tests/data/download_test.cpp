// Tests of downloads from a server on this machine: downloads that resume, are repeated or are rejected, and which
// files exist afterwards.
#include "src/data/download/download.h"

#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "tests/data/archives.h"
#include "tests/data/http_server.h"
#include "tests/data/program_fixture.h"
#include "tests/support/failure.h"
#include "tests/support/io_fixtures.h"

namespace carillon {
namespace {

using ::testing::ElementsAre;
using testing::FileSizeLimit;
using ::testing::HasSubstr;
using testing::HttpServer;
using testing::read_text;
using testing::ServedFile;
using ::testing::StartsWith;

std::string sha256_of(const std::string& text) {
  Sha256 sum;
  // Hashes the text in two pieces.
  sum.update(std::as_bytes(std::span(text).first(text.size() / 2)));
  sum.update(std::as_bytes(std::span(text).subspan(text.size() / 2)));
  return sum.digits();
}

/// Returns bytes that do not repeat, so that bytes from a wrong offset differ.
std::string noise(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return bytes;
}

class DownloadTest : public ProgramFixture {
 protected:
  /// Downloads to target(). Accepts only the contents `expected`.
  void fetch(const std::string& expected) {
    download(
        server_.address(), target(),
        [&](const std::filesystem::path& part) {
          if (read_text(part) != expected) fail(ExitCode::data, "wrong contents");
        },
        settings_);
  }
  Failure failure(const std::string& expected) {
    return failure_of([&] { fetch(expected); });
  }
  std::string target() const { return path("target"); }
  std::string part() const { return path("target.part"); }
  std::size_t file_count() const { return testing::entry_count(directory_); }

  HttpServer server_;
  DownloadSettings settings_{.tries = 3, .pause = std::chrono::milliseconds(1)};
  const std::string content_ = noise(300000);
};

TEST(Sha256, IsThatOfTheStandard) {  // source: FIPS 180-4, examples
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(DownloadTest, FetchesAFileAndLeavesNothingElse) {
  std::uint64_t last = 0, size = 0;
  settings_.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GT(done, last);
    last = done;
    size = total;
  };
  server_.set({.content = content_});
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
  EXPECT_EQ(file_count(), 1u);
  EXPECT_EQ(last, content_.size());
  EXPECT_EQ(size, content_.size());
}

TEST_F(DownloadTest, WritesOnlyToRegularFiles) {
  server_.set({.content = content_});
  const std::string victim = path("victim");
  const auto expect_refused = [&] {
    const Failure refused = failure(content_);
    EXPECT_EQ(refused.code, ExitCode::io);
    EXPECT_THAT(refused.text, HasSubstr("is a link or no regular file: remove it"));
    EXPECT_FALSE(std::filesystem::exists(victim));
  };
  ASSERT_EQ(mkfifo(part().c_str(), 0600), 0);
  expect_refused();
  std::filesystem::remove(part());
  std::filesystem::create_symlink(victim, part());
  expect_refused();
  EXPECT_TRUE(std::filesystem::is_symlink(part()));
  std::filesystem::remove(part());
  std::filesystem::create_symlink("/dev/null", part());
  expect_refused();
  EXPECT_TRUE(std::filesystem::is_symlink(part()));
  std::filesystem::remove(part());
  std::filesystem::create_symlink(victim, part() + ".tag");
  expect_refused();
  EXPECT_TRUE(server_.requests().size() == 1) << "only the last case reaches the server";
}

TEST_F(DownloadTest, FetchesFilesThatAreEmptyOrOfUnknownSize) {
  server_.set({.content = ""});
  fetch("");
  EXPECT_EQ(read_text(target()), "");
  std::filesystem::remove(target());
  server_.set({.content = content_, .states_size = false});
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
}

TEST_F(DownloadTest, ContinuesAfterEachCutWhereItEnded) {
  server_.set({.content = content_, .cut = 130000});
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
  EXPECT_THAT(server_.requests(), ElementsAre("GET /file", "GET /file range: bytes=130000- if-range: \"one\"",
                                              "GET /file range: bytes=260000- if-range: \"one\""));
}

TEST_F(DownloadTest, TheNextProcessContinuesThePart) {
  settings_.tries = 1;
  settings_.max_bytes = 200000;
  server_.set({.content = content_, .states_size = false});
  EXPECT_EQ(failure(content_).code, ExitCode::data);
  const std::size_t kept = read_text(part()).size();
  EXPECT_GT(kept, 0u);
  EXPECT_FALSE(std::filesystem::exists(target()));
  settings_.max_bytes = content_.size();
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
  EXPECT_EQ(server_.requests().back(), "GET /file range: bytes=" + std::to_string(kept) + "- if-range: \"one\"");
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(DownloadTest, AnotherFileOnTheServerReplacesThePart) {
  write("target.part", content_.substr(0, 1000));
  write("target.part.tag", "\"one\"");
  const std::string other = noise(5000) + "other";
  server_.set({.content = other, .etag = "\"two\""});
  fetch(other);
  EXPECT_EQ(read_text(target()), other);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(DownloadTest, APartOfAnotherFileIsFetchedAgainIfTheServerHasNoTags) {
  write("target.part", std::string(1000, 'x'));
  server_.set({.content = content_, .etag = ""});
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
  EXPECT_THAT(server_.requests(), ElementsAre("GET /file range: bytes=1000-", "GET /file"));
}

TEST_F(DownloadTest, APartLongerThanTheFileIsFetchedAgain) {
  write("target.part", content_ + "more");
  server_.set({.content = content_});
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
}

TEST_F(DownloadTest, ACompletePartIsOnlyChecked) {
  write("target.part", content_);
  server_.set({.content = content_});
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(DownloadTest, AServerWithoutRangesSendsTheWholeFileAgain) {
  write("target.part", content_.substr(0, 100000));
  server_.set({.content = content_, .knows_ranges = false});
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
}

TEST_F(DownloadTest, AttemptsWithoutProgressEnd) {
  // The server ignores ranges, so each attempt gets only the first 1000 bytes again.
  server_.set({.content = content_, .knows_ranges = false, .cut = 1000});
  const Failure failed = failure(content_);
  EXPECT_EQ(failed.code, ExitCode::io);
  EXPECT_THAT(failed.text, HasSubstr(server_.address()));
  EXPECT_THAT(failed.text, HasSubstr("in 3 attempts"));
  EXPECT_EQ(server_.requests().size(), 4u);  // the first attempt makes progress; 3 attempts without progress follow
  EXPECT_EQ(read_text(part()).size(), 1000u);
}

TEST_F(DownloadTest, WrongContentsAreRemoved) {
  server_.set({.content = content_});
  const Failure failed = failure("other");
  EXPECT_EQ(failed.code, ExitCode::data);
  EXPECT_EQ(failed.text, server_.address() + ": wrong contents");
  EXPECT_EQ(file_count(), 0u);
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(DownloadTest, AMissingFileIsNotRequestedAgain) {
  server_.set({.status = 404});
  const Failure failed = failure(content_);
  EXPECT_EQ(failed.code, ExitCode::no_input);
  EXPECT_THAT(failed.text, StartsWith(server_.address() + ": the server has no such file"));
  EXPECT_EQ(server_.requests().size(), 1u);
  EXPECT_EQ(file_count(), 0u) << "an empty part stays";
}

TEST_F(DownloadTest, ABusyServerIsAskedAgain) {
  server_.set({.status = 503});
  EXPECT_THAT(failure(content_).text, HasSubstr("HTTP status 503, in 3 attempts"));
  EXPECT_EQ(server_.requests().size(), 3u);
  server_.set({.status = 403});
  EXPECT_THAT(failure(content_).text, HasSubstr("refuses the request (HTTP status 403)"));
  EXPECT_EQ(server_.requests().size(), 4u);
}

TEST_F(DownloadTest, FollowsRedirectionsOverHttpOnly) {
  server_.set({.content = content_, .redirection = "/file"});
  const auto no_check = [](const std::filesystem::path&) {};
  download(server_.address("/old"), target(), no_check, settings_);
  EXPECT_EQ(read_text(target()), content_);
  server_.set({.content = content_, .redirection = "file://" + target()});
  const Failure failed = failure_of([&] { download(server_.address("/old"), path("other"), no_check, settings_); });
  EXPECT_EQ(failed.code, ExitCode::io);
  EXPECT_FALSE(std::filesystem::exists(path("other")));
}

TEST_F(DownloadTest, AFullDiskKeepsThePart) {
  server_.set({.content = content_});
  {
    const FileSizeLimit limit(50000);
    const Failure failed = failure(content_);
    EXPECT_EQ(failed.code, ExitCode::io);
    EXPECT_THAT(failed.text, StartsWith(part() + ": cannot be written: "));
  }
  EXPECT_EQ(read_text(part()).size(), 50000u);
  fetch(content_);
  EXPECT_EQ(read_text(target()), content_);
  EXPECT_EQ(server_.requests().back(), "GET /file range: bytes=50000- if-range: \"one\"");
}

TEST_F(DownloadTest, WithoutANetworkTheAddressIsNamed) {
  setenv("no_proxy", "127.0.0.1", 1);
  const Failure failed = failure_of([&] {
    download(
        "http://127.0.0.1:9/file", target(), [](const auto&) {}, settings_);
  });
  EXPECT_EQ(failed.code, ExitCode::io);
  EXPECT_THAT(failed.text, StartsWith("http://127.0.0.1:9/file: "));
  EXPECT_THAT(failed.text, HasSubstr("in 3 attempts"));
}

TEST_F(DownloadTest, TwoProcessesDoNotWriteTheSamePart) {
  const Descriptor other(open(write("target.part", "x").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  server_.set({.content = content_});
  const Failure failed = failure(content_);
  EXPECT_EQ(failed.code, ExitCode::usage);
  EXPECT_EQ(failed.text, part() + ": another process downloads it");
  EXPECT_EQ(read_text(part()), "x");
}

class PublishedSetTest : public DownloadTest {
 protected:
  /// A published dataset that consists of one file, which the program stores with GZIP.
  PublishedSet set() const {
    return {.address = "http://127.0.0.1:9/", .files = {{.name = "file", .contents = {{"", sum_}}}}};
  }
  SetDownload set_download() {
    return {.mirror = server_.address(""), .transfer = settings_, .note = [this](const std::string& text) {
              notes_ += text + "\n";
            }};
  }

  const std::string sum_ = sha256_of(content_);
  std::string notes_;
};

TEST_F(PublishedSetTest, TheChecksumIsThatOfTheDecompressedContents) {
  server_.set({.content = gzip_member(content_)});
  download_set(set(), directory_, set_download());
  EXPECT_EQ(read_text(path("file")), gzip_member(content_));
  download_set(set(), directory_, set_download());  // the file already exists, so the call only checks it and sends no
                                                    // request
  EXPECT_EQ(server_.requests().size(), 1u);
  EXPECT_THAT(notes_, HasSubstr("present, its contents are right"));
}

TEST_F(PublishedSetTest, OtherContentsAreRefusedAndNamed) {
  server_.set({.content = gzip_member(content_ + "x")});
  const Failure failed = failure_of([&] { download_set(set(), directory_, set_download()); });
  EXPECT_EQ(failed.code, ExitCode::data);
  EXPECT_THAT(failed.text, StartsWith(server_.address() + ": "));
  EXPECT_THAT(failed.text, HasSubstr("the SHA-256 of its contents is " + sha256_of(content_ + "x") + ", not " + sum_));
  EXPECT_THAT(failed.text, HasSubstr("Without --download: fetch file from http://127.0.0.1:9/"));
  EXPECT_EQ(file_count(), 0u);
  write("file", "mine");
  const Failure kept = failure_of([&] { download_set(set(), directory_, set_download()); });
  EXPECT_EQ(kept.code, ExitCode::data);
  EXPECT_THAT(kept.text, HasSubstr("remove it to download it again"));
  EXPECT_EQ(read_text(path("file")), "mine");
}

TEST_F(PublishedSetTest, EachMemberOfAnArchiveIsCompared) {
  const std::string one = sha256_of("one"), two = sha256_of("two");
  const PublishedFile file{.name = "file", .contents = {{"1.bin", one}, {"2.bin", two}}};
  const auto archive = [&](const std::string& second) {
    return tar_member("a/1.bin", "one") + tar_member("a/2.bin", second) + tar_member("a/more", "x") +
           std::string(1024, '\0');
  };
  check_published_contents(write("right", compressed(archive("two"), "xz")), file);
  check_published_contents(write("right", gzip_member(archive("two"))), file);
  const auto refused = [&](const std::string& bytes) {
    const std::string wrong = write("wrong", bytes);
    return failure_of([&] { check_published_contents(wrong, file); });
  };
  EXPECT_THAT(refused(archive("three")).text, HasSubstr("the SHA-256 of its contents 2.bin is"));
  EXPECT_THAT(refused(tar_member("1.bin", "one") + std::string(1024, '\0')).text, HasSubstr("no file 2.bin"));
  EXPECT_EQ(refused("no archive").code, ExitCode::data);
}

TEST_F(PublishedSetTest, TheProgramNamesTheAddressAndHowToDoWithoutIt) {
  server_.set({.status = 404});
  const std::string command = "tfrecord_convert mnist --download --output " + path("out");
  const std::string from = " --mirror " + server_.address("");
  expect_failure(command + from, ExitCode::no_input,
                 server_.address("/train-images-idx3-ubyte.gz") +
                     ": the server has no such file (HTTP status 404). Without --download: fetch "
                     "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
                     "t10k-labels-idx1-ubyte.gz from https://storage.googleapis.com/cvdf-datasets/mnist/ in another "
                     "way, and name the path with --input");
  server_.set({.content = gzip_member("no MNIST")});
  expect_failure(command + from + "/", ExitCode::data, "is not the published file: the SHA-256 of its contents is");
  expect_failure("tfrecord_convert cifar10 --download --output " + path("out") + from, ExitCode::data,
                 server_.address("/cifar-10-binary.tar.gz") + ": ");
}

TEST_F(PublishedSetTest, TheProgramRefusesBadUsage) {
  const std::string output = " --output " + path("out");
  expect_failure("tfrecord_convert images --download" + output, ExitCode::usage,
                 "--download requires the format mnist or cifar10");
  expect_failure("tfrecord_convert mnist --mirror http://a --input a" + output, ExitCode::usage,
                 "--mirror requires --download");
  expect_failure("tfrecord_convert mnist --download --mirror ftp://a" + output, ExitCode::usage,
                 "--mirror 'ftp://a': must begin with http:// or https://");
  expect_failure("tfrecord_convert mnist --download --input " + write("file", "x") + output, ExitCode::usage,
                 "must be a folder with --download");
  expect_failure("tfrecord_convert mnist" + output, ExitCode::usage, "--input PATH is missing; --download");
}

}  // namespace
}  // namespace carillon

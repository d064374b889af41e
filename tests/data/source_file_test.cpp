#include "src/data/convert/source_file.h"

#include <gmock/gmock.h>

#include <array>

#include "tests/data/archives.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::StartsWith;

/// By compression; empty: none.
class SourceFileTest : public ScratchTest, public testing::WithParamInterface<std::string> {
 protected:
  /// Compressible in part.
  static std::string content() {
    std::string bytes(100'000, 'x');
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
      bytes[i] = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
    }
    return bytes;
  }
  static std::string stored() { return GetParam().empty() ? content() : compressed(content(), GetParam().c_str()); }

  static std::string read_all(SourceFile& file) {
    std::string all;
    std::array<char, 777> piece;
    for (std::size_t bytes; (bytes = file.read(std::as_writable_bytes(std::span(piece)))) > 0;) {
      all.append(piece.data(), bytes);
    }
    return all;
  }
  Failure failure_of_reading(const std::string& bytes) const {
    return failure_of([&] {
      SourceFile file(write("file", bytes));
      read_all(file);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Compressions, SourceFileTest, testing::Values("", "gzip", "xz", "bzip2", "zstd"),
                         [](const auto& test) { return test.param.empty() ? "Plain" : test.param; });

TEST_P(SourceFileTest, TheBytesAreThoseBeforeCompression) {
  SourceFile file(write("file", stored()));
  EXPECT_EQ(read_all(file), content());
  EXPECT_EQ(file.path(), path("file"));
}

TEST_P(SourceFileTest, BytesAreTakenOneAfterTheOtherAndFewerAtTheEnd) {
  SourceFile file(write("file", stored()));
  const std::vector<std::uint8_t> head = file.take(10), rest = file.take(std::size_t{1} << 40);
  EXPECT_EQ(std::string(head.begin(), head.end()), content().substr(0, 10));
  EXPECT_EQ(std::string(rest.begin(), rest.end()), content().substr(10));
  EXPECT_TRUE(file.take(1).empty());
}

TEST_P(SourceFileTest, AFileThatIsCutWhileItIsReadEndsThere) {
  std::string noise(std::size_t{1} << 20, '\0');  // more than is read ahead
  std::uint32_t state = 1;
  for (char& byte : noise) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  SourceFile file(write("file", GetParam().empty() ? noise : compressed(noise, GetParam().c_str())));
  EXPECT_EQ(file.take(10).size(), 10u);
  std::filesystem::resize_file(path("file"), 0);
  const Failure failure = failure_of([&] { EXPECT_LT(file.take(noise.size()).size(), noise.size() - 10); });
  if (GetParam().empty()) {
    EXPECT_EQ(failure.code, ExitCode::done);
  } else {
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, StartsWith(path("file") + ": the "));
  }
}

/// The compressions that detect damage.
class CompressedFileTest : public SourceFileTest {};
INSTANTIATE_TEST_SUITE_P(Compressions, CompressedFileTest, testing::Values("gzip", "xz", "bzip2", "zstd"),
                         [](const auto& test) { return test.param; });

TEST_P(CompressedFileTest, ACutFileIsNamed) {
  const std::string whole = stored();
  for (const std::size_t bytes : {whole.size() - 1, whole.size() / 2, std::size_t{20}}) {
    const Failure failure = failure_of_reading(whole.substr(0, bytes));
    EXPECT_EQ(failure.code, ExitCode::data) << bytes;
    EXPECT_THAT(failure.text, StartsWith(path("file") + ": the ")) << bytes;
  }
}

/// The compressions with a checksum; libarchive writes none for zstd.
class ChecksummedFileTest : public CompressedFileTest {};
INSTANTIATE_TEST_SUITE_P(Compressions, ChecksummedFileTest, testing::Values("gzip", "xz", "bzip2"),
                         [](const auto& test) { return test.param; });

TEST_P(ChecksummedFileTest, DamageIsFound) {
  const std::string whole = stored();
  for (std::size_t place = 20; place < whole.size(); place += whole.size() / 50) {
    std::string damaged = whole;
    damaged[place] ^= 4;
    EXPECT_EQ(failure_of_reading(damaged).code, ExitCode::data) << place;
  }
}

using OddFileTest = ScratchTest;

TEST_F(OddFileTest, ZipIsRefused) {
  const Failure failure = failure_of([&] { SourceFile(write("file", "PK\x03\x04" + std::string(600, '\0'))); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_EQ(failure.text, path("file") + ": is a zip file; unpack it first");
}

TEST_F(OddFileTest, AFileThatOnlyBeginsLikeACompressionIsDamaged) {
  const Failure failure = failure_of([&] {
    SourceFile file(write("file",
                          "\xFD"
                          "7zXZ" +
                              std::string(600, '\0')));
    file.take(1000);
  });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, StartsWith(path("file") + ": the xz data is damaged or truncated ("));
}

TEST_F(OddFileTest, AnEmptyFileHasNoBytes) { EXPECT_TRUE(SourceFile(write("file", "")).take(1).empty()); }

}  // namespace
}  // namespace carillon

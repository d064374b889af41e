#include "src/data/convert/source_file.h"

#include <gmock/gmock.h>

#include <array>

#include "tests/data/archives.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using OddFileTest = ScratchTest;
using testing::HasSubstr;
using testing::StartsWith;

/// The parameter is the compression. If it is empty, the file is not compressed.
class SourceFileTest : public ScratchTest, public testing::WithParamInterface<std::string> {
 protected:
  /// Returns a content that consists of a compressible and an incompressible part.
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
  std::string noise(std::size_t{1} << 20, '\0');  // the content is larger than the part that the reader reads ahead
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

/// The tests of this class run for all compressions that detect damage.
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

/// The tests of this class run for the compressions with a checksum. zstd is omitted, because libarchive writes zstd
/// data without checksums.
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

const std::string end_mark(1024, '\0');

class ArchiveReaderTest : public ScratchTest {
 protected:
  static constexpr std::uint64_t max_bytes = std::uint64_t{1} << 20;

  /// Returns "name=content" for each file in the archive, and "name" for each other member.
  std::vector<std::string> members(const std::string& bytes) const {
    ArchiveReader archive(write("archive", bytes), max_bytes);
    std::vector<std::string> found;
    for (ArchiveMember member; archive.next(member);) {
      found.push_back(member.name);
      if (!member.is_file) continue;
      const std::vector<std::uint8_t> content = archive.content();
      EXPECT_EQ(content.size(), member.bytes);
      found.back() += '=';
      found.back().append(content.begin(), content.end());
    }
    return found;
  }
  Failure refused(const std::string& bytes) const {
    const Failure failure = failure_of([&] { members(bytes); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, StartsWith(path("archive") + ": "));
    return failure;
  }
};

TEST_F(ArchiveReaderTest, MembersComeInTheirOrderWithTheirContents) {
  const std::string bytes = tar_member("d/", "", '5') + tar_member("d/a", "one") + tar_member("b", "") + end_mark;
  EXPECT_EQ(members(bytes), (std::vector<std::string>{"d/", "d/a=one", "b="}));
  EXPECT_EQ(members(compressed(bytes, "xz")), members(bytes));
}

TEST_F(ArchiveReaderTest, ContentsMayBePassedOver) {
  const std::string bytes = tar_member("a", std::string(5000, 'x')) + tar_member("b", "two") + end_mark;
  ArchiveReader archive(write("a", bytes), max_bytes);
  ArchiveMember member;
  ASSERT_TRUE(archive.next(member));
  ASSERT_TRUE(archive.next(member));
  EXPECT_EQ(member.name, "b");
  EXPECT_EQ(archive.content(), (std::vector<std::uint8_t>{'t', 'w', 'o'}));
  EXPECT_FALSE(archive.next(member));
}

TEST_F(ArchiveReaderTest, LongNamesOfGnuAndPaxAreRead) {
  const std::string name = std::string(150, 'n') + "/file",
                    record = fmt::format("{} path={}\n", name.size() + 10, name);
  EXPECT_EQ(members(tar_member("././@LongLink", name, 'L') + tar_member("cut", "x") + end_mark),
            (std::vector<std::string>{name + "=x"}));
  EXPECT_EQ(members(tar_member("pax", record, 'x') + tar_member("cut", "x") + end_mark),
            (std::vector<std::string>{name + "=x"}));
}

TEST_F(ArchiveReaderTest, LinksAreNoFiles) {
  EXPECT_EQ(members(tar_member("hard", "", '1') + tar_member("soft", "", '2') + end_mark),
            (std::vector<std::string>{"hard", "soft"}));
}

TEST_F(ArchiveReaderTest, AnArchiveMayEndWithoutItsMark) {
  EXPECT_EQ(members(tar_member("a", "one")), (std::vector<std::string>{"a=one"}));
}

TEST_F(ArchiveReaderTest, AFileThatIsNotAnArchiveIsNamed) {
  for (const std::string& bytes :
       {std::string(), std::string("CIFAR-10\n"), std::string(10240, '\0'), std::string(5000, 'x')}) {
    EXPECT_THAT(refused(bytes).text, StartsWith(path("archive") + ": not a tar archive ("));
  }
}

TEST_F(ArchiveReaderTest, DamageIsNamedByTheMemberBefore) {
  std::string bytes = tar_member("a", "one") + tar_member("b", "two") + end_mark;
  bytes[1024 + 3] ^= 1;
  EXPECT_THAT(refused(bytes).text, HasSubstr("the archive is damaged or truncated after 'a' ("));
  EXPECT_THAT(refused(bytes.substr(0, 1024 + 100)).text, HasSubstr("the archive is damaged or truncated after 'a' ("));
  EXPECT_THAT(refused(bytes.substr(0, 512 + 2)).text, HasSubstr("the archive is truncated: only 2 of 3 bytes of 'a'"));
}

TEST_F(ArchiveReaderTest, DamageInACompressionIsNamedAsThat) {
  const std::string bytes = tar_member("a", std::string(3000, 'x')) + end_mark;
  for (const char* compression : {"gzip", "xz", "bzip2"}) {
    const std::string whole = compressed(bytes, compression);
    std::string flipped = whole;
    flipped[flipped.size() - 6] ^= 1;  // the changed byte is in a checksum after the end of the archive
    EXPECT_THAT(refused(flipped).text, HasSubstr(" data is ")) << compression;
    EXPECT_THAT(refused(whole.substr(0, whole.size() / 2)).text, HasSubstr(" data is ")) << compression;
  }
}

TEST_F(ArchiveReaderTest, SizesThatAreOnlyPromisedAreRefused) {
  const std::string text = "'huge' exceeds the limit of 1 MiB per archive";
  EXPECT_THAT(refused(with_size(tar_member("huge", ""), std::uint64_t{1} << 62)).text, HasSubstr(text));
  EXPECT_THAT(refused(with_size(tar_member("huge", ""), max_bytes + 1)).text, HasSubstr(text));
  const std::string half(600 << 10, 'x');
  EXPECT_THAT(refused(tar_member("a", half) + with_size(tar_member("huge", ""), half.size())).text, HasSubstr(text));
}

TEST_F(ArchiveReaderTest, AnArchiveThatInflatesWithoutEndIsRefused) {
  const std::string small = tar_member("a", "one") + end_mark;
  for (const char* compression : {"gzip", "xz", "bzip2", "zstd"}) {
    const std::string bomb = compressed(small + std::string(16 << 20, '\0'), compression);
    EXPECT_LT(bomb.size(), 100'000u);
    EXPECT_THAT(refused(bomb).text, HasSubstr("it exceeds the limit of 1 MiB")) << compression;
  }
}

TEST_F(ArchiveReaderTest, ASparseFilesHolesCount) {
  // GNU's old sparse format: from byte 386 on, the offsets and lengths of the pieces; at byte 483, the real size of the
  // file. This file has only one empty piece, at its end.
  std::string sparse = tar_member("hole", "", 'S');
  sparse.replace(257, 8, std::string("ustar  \0", 8));
  sparse.replace(386, 11, fmt::format("{:011o}", 1 << 30));
  sparse.replace(398, 11, fmt::format("{:011o}", 0));
  sparse.replace(483, 11, fmt::format("{:011o}", 1 << 30));
  EXPECT_THAT(refused(with_size(sparse, 0) + end_mark).text, HasSubstr("'hole' exceeds the limit of 1 MiB"));
}

}  // namespace
}  // namespace carillon

#include "src/data/convert/archive_reader.h"

#include <gmock/gmock.h>

#include "tests/data/archives.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string end_mark(1024, '\0');

class ArchiveReaderTest : public ScratchTest {
 protected:
  static constexpr std::uint64_t max_bytes = std::uint64_t{1} << 20;

  /// "name=content" of the files in the archive, "name" of other members.
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
    flipped[flipped.size() - 6] ^= 1;  // a checksum after the archive's end
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
  // GNU's old form: at 386 the pieces' offsets and lengths, here one at the end and of nothing; at 483 the real size.
  std::string sparse = tar_member("hole", "", 'S');
  sparse.replace(257, 8, std::string("ustar  \0", 8));
  sparse.replace(386, 11, fmt::format("{:011o}", 1 << 30));
  sparse.replace(398, 11, fmt::format("{:011o}", 0));
  sparse.replace(483, 11, fmt::format("{:011o}", 1 << 30));
  EXPECT_THAT(refused(with_size(sparse, 0) + end_mark).text, HasSubstr("'hole' exceeds the limit of 1 MiB"));
}

}  // namespace
}  // namespace carillon

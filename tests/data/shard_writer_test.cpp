// Tests what a directory of shards contains after a conversion was killed or failed.
#include "src/data/convert/shard_writer.h"

#include <gmock/gmock.h>

#include <csignal>
#include <set>

#include "tests/data/fixtures.h"

namespace carillon {
namespace {

class ShardWriterTest : public ScratchTest {
 protected:
  using Names = std::set<std::string>;

  void write_shards_with(const ExampleEncoder& encode, std::size_t shards = 2) const {
    CompleteSplit complete = make_image_shards(split_, shards, directory_, encode, [](std::size_t) {});
    publish(directory_, {&complete, 1});
  }
  Names names() const {
    Names found;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }

  const ImageSplit split_{.name = "train",
                          .image_bytes = 784,
                          .images = std::vector<std::uint8_t>(20 * 784),
                          .labels = std::vector<std::uint8_t>(20)};
  const Names shards_{"train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"};
};

TEST_F(ShardWriterTest, AKilledConversionLeavesNothingThatAPatternMatches) {
  const auto killed_in_the_second_shard = [](const ImageSplit& split, std::size_t i, proto::Example& example) {
    if (i == 15) std::raise(SIGKILL);
    encode_mnist(split, i, example);
  };
  EXPECT_EXIT(write_shards_with(killed_in_the_second_shard), testing::KilledBySignal(SIGKILL), "");
  EXPECT_THAT(names(), testing::SizeIs(2));
  EXPECT_THAT(names(), testing::Each(testing::StartsWith(".train-0000")));
  const std::string pattern = path("train-*");
  EXPECT_THROW(Dataset::open(std::vector{pattern}, mnist_decoder), Error);

  write("test-00000-of-00001.tfrecord.tmp", "");
  write(".train-notes.1.tmp", "");
  write_shards_with(encode_mnist);
  Names expected = shards_;
  expected.insert({"test-00000-of-00001.tfrecord.tmp", ".train-notes.1.tmp"});  // not files of a conversion
  EXPECT_EQ(names(), expected);
  EXPECT_EQ(Dataset::open(std::vector{pattern}, mnist_decoder).size(), 20u);
}

TEST_F(ShardWriterTest, AFailedConversionKeepsExistingFiles) {
  write_shards_with(encode_mnist);
  const std::string shard = path(*shards_.begin()), before = read_bytes(shard);
  const auto failing = [](const ImageSplit&, std::size_t i, proto::Example& example) {
    (*example.mutable_features()->mutable_feature())["label"].mutable_int64_list()->add_value(0);
    if (i == 15) fail(ExitCode::data, "record 15");
  };
  EXPECT_THROW(write_shards_with(failing), Error);
  EXPECT_EQ(names(), shards_);
  EXPECT_EQ(read_bytes(shard), before);
}

}  // namespace
}  // namespace carillon

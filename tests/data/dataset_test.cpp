#include "carillon/data/dataset.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "src/core/resources.h"
#include "src/data/loading/batch_loader.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class DatasetTest : public ScratchTest {
 protected:
  static Dataset open(const std::vector<std::string>& patterns, CacheMode cache = CacheMode::memory) {
    return Dataset::open(patterns, mnist_decoder, cache);
  }

  /// Expects the labels, the images and the fingerprint of the golden samples.
  static void expect_golden(const std::string& name, CacheMode cache) {
    const Dataset dataset = open({sample_path(name)}, cache);
    const std::string expected = read_bytes(sample_path("expected.u8"));
    ASSERT_EQ(dataset.size(), 20u) << name;
    std::vector<std::uint8_t> image(784);
    for (std::size_t i = 0; i < dataset.size(); ++i) {
      EXPECT_EQ(read_class(dataset, i, i, image), expected[20 * 784 + i]) << name << " record " << i;
      EXPECT_EQ(std::string(image.begin(), image.end()), expected.substr(i * 784, 784)) << name << " record " << i;
    }
  }

  /// Opens and reads a file of `bytes` in every cache mode. Expects in each mode a failure with code 65 that names the
  /// file, the record and the byte. Returns the text of the last failure.
  std::string damage(const std::string& bytes, int number, std::size_t offset) const {
    const std::string file = write("damaged.tfrecord", bytes);
    std::string text;
    for (const CacheMode cache : {CacheMode::memory, CacheMode::automatic, CacheMode::none}) {
      const Failure failure = failure_of([&] {
        const Dataset dataset = open({file}, cache);
        std::vector<std::uint8_t> image(784);
        for (std::size_t i = 0; i < dataset.size(); ++i) read_class(dataset, i, i, image);
      });
      EXPECT_EQ(failure.code, ExitCode::data);
      EXPECT_THAT(failure.text, StartsWith(fmt::format("{}: record {} at byte {}: ", file, number, offset)));
      EXPECT_TRUE(text.empty() || text == failure.text) << text << " / " << failure.text;
      text = failure.text;
    }
    return text;
  }
};

TEST_F(DatasetTest, EveryWritersRecordsGiveTheSameImagesAndLabels) {
  for (const char* name :
       {"tensorflow.tfrecord", "more_features.tfrecord", "other_order.tfrecord", "unpacked.tfrecord"}) {
    expect_golden(name, CacheMode::memory);
    expect_golden(name, CacheMode::none);
  }
  expect_golden("tensorflow_gzip.tfrecord", CacheMode::memory);
  expect_golden("tensorflow_gzip.tfrecord", CacheMode::automatic);
}

TEST_F(DatasetTest, ReadGivesWhatTheCacheHolds) {
  const Dataset cached = open({write("a", mnist_records(13))});
  ASSERT_TRUE(cached.in_memory());
  std::vector<std::uint8_t> image(784);
  for (std::size_t i = 0; i < cached.size(); ++i) {
    EXPECT_EQ(read_class(cached, i, i, image), class_of(cached.target(i)));
    EXPECT_TRUE(std::equal(image.begin(), image.end(), cached.image(i)));
    EXPECT_EQ(image[783], i);
  }
}

/// Expects that `use` fails with the message that record `number` of `file` has changed in memory.
void expect_changed(const std::function<void()>& use, const std::string& file, int number) {
  const Failure failure = failure_of(use);
  EXPECT_EQ(failure.code, ExitCode::failed);
  EXPECT_THAT(failure.text, StartsWith(fmt::format("{}: record {}: ", file, number)));
}

TEST_F(DatasetTest, ARecordThatChangesInMemoryIsNamedBeforeItIsUsed) {
  const std::string second = write("b", mnist_records(4));
  const Dataset set = open({write("a", mnist_records(2)), second});
  std::vector<std::uint8_t> image(set.image_bytes());
  std::vector<std::byte> target(set.target_bytes());
  auto* const last_pixel = const_cast<std::uint8_t*>(set.image(4)) + set.image_bytes() - 1;
  auto* const label = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(set.target(4).data()));
  for (std::uint8_t* const byte : {last_pixel, label}) {
    for (int bit = 0; bit < 8; ++bit) {
      *byte ^= static_cast<std::uint8_t>(1 << bit);
      BatchLoader loader(set, SampleOrder(set.size(), 0, false), {.start = 0, .global_batch = 3, .batch_size = 3});
      loader.next();  // uses records 0 to 2
      expect_changed([&] { loader.next(); }, second, 2);
      expect_changed([&] { set.read(4, 4, image, target); }, second, 2);
      *byte ^= static_cast<std::uint8_t>(1 << bit);
      EXPECT_NO_THROW(set.read(4, 4, image, target));
    }
  }
}

TEST_F(DatasetTest, SyntheticImagesThatChangeInMemoryAreNamed) {
  const Dataset set = Dataset::synthetic(mnist_decoder);
  for (std::size_t i = 0; i < set.size(); ++i) set.check_unchanged(i);
  *const_cast<std::uint8_t*>(set.image(7)) ^= 16;
  expect_changed([&] { set.check_unchanged(7); }, "synthetic data", 7);
}

TEST_F(DatasetTest, DensityIsTheShareOfBytesThatAreNotZero) {
  const std::string file = write("a", mnist_records(4));  // only the first image contains zeros
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    EXPECT_FLOAT_EQ(open({file}, cache).density(), 0.75f);
  }
}

TEST_F(DatasetTest, DensityIsOfRecordsAllOverTheSetHoweverSharded) {
  std::string black, grey;
  for (int i = 0; i < 300; ++i) append_record(black, mnist_example(0, 1));
  for (int i = 0; i < 300; ++i) append_record(grey, mnist_example(128, 1));
  EXPECT_FLOAT_EQ(open({write("both", black + grey)}).density(), 0.5f);
  EXPECT_FLOAT_EQ(open({write("black", black), write("grey", grey)}).density(), 0.5f);
}

TEST_F(DatasetTest, DensityNamesADamagedRecord) {
  std::string bad = mnist_records(3);
  bad[bad.size() / 3 + 100] ^= 1;
  const Dataset dataset = open({write("damaged", bad)}, CacheMode::none);
  const Failure failure = failure_of([&] { static_cast<void>(dataset.density()); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr("record 1 at byte"));
}

TEST_F(DatasetTest, RecordsCountThroughTheFilesInTheOrderNamed) {
  const std::string first = write("2", mnist_records(3)), empty = write("3", ""), second = write("1", mnist_records(2));
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    const Dataset dataset = open({first, empty, second}, cache);
    std::vector<std::uint8_t> image(784);
    std::vector<int> labels;
    for (std::size_t i = 0; i < dataset.size(); ++i) labels.push_back(read_class(dataset, i, i, image));
    EXPECT_EQ(labels, (std::vector<int>{0, 1, 2, 0, 1}));
  }
}

TEST_F(DatasetTest, ARecordsNameIsItsFileAndItsNumberThere) {
  const std::string first = write("2", mnist_records(3)), empty = write("3", ""), second = write("1", mnist_records(2));
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    const Dataset dataset = open({first, empty, second}, cache);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < dataset.size(); ++i) names.push_back(dataset.name_of(i));
    EXPECT_EQ(names, (std::vector<std::string>{first + ": record 0", first + ": record 1", first + ": record 2",
                                               second + ": record 0", second + ": record 1"}));
  }
}

TEST_F(DatasetTest, AGlobsMatchesAreSortedByName) {
  std::string one_of_label[3];
  for (int label = 0; label < 3; ++label) append_record(one_of_label[label], mnist_example(0, label));
  write("b.tfrecord", one_of_label[1]);
  write("c.tfrecord", one_of_label[2]);
  write("a.tfrecord", one_of_label[0]);
  write("other", one_of_label[0]);
  const Dataset dataset = open({path("*.tfrecord")});
  ASSERT_EQ(dataset.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(class_of(dataset.target(static_cast<std::size_t>(i))), i);
}

TEST_F(DatasetTest, AnyPathThatExistsIsTakenAsItIs) {
  for (const char* name : {"mit Leerzeichen", "größe-日本", "star*[1]?.tfrecord"})
    EXPECT_EQ(open({write(name, mnist_records(2))}).size(), 2u) << name;
  std::filesystem::create_symlink(path("mit Leerzeichen"), path("link"));
  EXPECT_EQ(open({path("link")}).size(), 2u);
}

TEST_F(DatasetTest, MissingFilesAreNamedWithCode66) {
  for (const std::string& missing : {path("nowhere.tfrecord"), path("nowhere-*"), path("no/such/folder")}) {
    const Failure failure = failure_of([&] { open({missing}); });
    EXPECT_EQ(failure.code, ExitCode::no_input);
    EXPECT_THAT(failure.text, StartsWith(missing));
  }
  EXPECT_EQ(failure_of([] { open({}); }).code, ExitCode::no_input);
}

TEST_F(DatasetTest, ASetOfNoRecordsOrADirectoryIsCode65) {
  const Failure empty = failure_of([&] { open({write("empty", "")}); });
  EXPECT_EQ(empty.code, ExitCode::data);
  EXPECT_THAT(empty.text, HasSubstr("no records"));
  EXPECT_EQ(failure_of([&] { open({path("empty"), path("empty")}, CacheMode::none); }).code, ExitCode::data);
  const Failure directory = failure_of([&] { open({directory_.string()}); });
  EXPECT_EQ(directory.code, ExitCode::data);
  EXPECT_THAT(directory.text, HasSubstr("is a directory"));
}

TEST_F(DatasetTest, DamageIsNamedTheSameWithAndWithoutCache) {
  const std::string good = mnist_records(3);
  std::string bad_length = good, bad_data = good;
  bad_length[good.size() / 3 + 2] ^= 1;
  bad_data[good.size() / 3 + 100] ^= 1;
  EXPECT_THAT(damage(bad_length, 1, good.size() / 3), HasSubstr("length's checksum"));
  EXPECT_THAT(damage(bad_data, 1, good.size() / 3), HasSubstr("data's checksum"));
  EXPECT_THAT(damage(good.substr(0, good.size() - 1), 2, good.size() / 3 * 2), HasSubstr("data ends early"));
  EXPECT_THAT(damage(good + "\x01", 3, good.size()), HasSubstr("trailing bytes"));
}

TEST_F(DatasetTest, RecordNumbersAndBytesAreThoseWithinTheFile) {
  std::string bad = mnist_records(2);
  bad[bad.size() / 2 + 100] ^= 1;
  const std::vector<std::string> files = {write("1", mnist_records(3)), write("2", bad), write("3", mnist_records(1))};
  const Failure cached = failure_of([&] { open(files); });
  EXPECT_THAT(cached.text, StartsWith(fmt::format("{}: record 1 at byte {}: ", files[1], bad.size() / 2)));
  const Dataset indexed = open(files, CacheMode::none);
  std::vector<std::uint8_t> image(784);
  EXPECT_EQ(failure_of([&] { read_class(indexed, 4, 4, image); }).text, cached.text);

  bad[100] ^= 1;
  write("2", bad);
  EXPECT_THAT(failure_of([&] { read_class(open(files, CacheMode::none), 3, 3, image); }).text,
              StartsWith(files[1] + ": record 0 at byte 0: "));
}

TEST_F(DatasetTest, AnUnsuitableRecordIsNamedWithFileRecordAndByte) {
  const std::string good = mnist_records(2);
  const auto with = [&](const std::string& example) {
    std::string bytes = good;
    append_record(bytes, example);
    return bytes;
  };
  EXPECT_THAT(damage(with("no protobuf"), 2, good.size()), HasSubstr("not a tf.train.Example"));
  EXPECT_THAT(damage(with(mnist_example(0, 0, 700)), 2, good.size()), HasSubstr("700 bytes, not 784"));
  EXPECT_THAT(damage(with(mnist_example(0, 10)), 2, good.size()), HasSubstr("'label' is 10, outside 0..9"));
  EXPECT_THAT(damage(with(mnist_example(0, -1)), 2, good.size()), HasSubstr("'label' is -1, outside 0..9"));
  EXPECT_THAT(damage(with(""), 2, good.size()), HasSubstr("no feature 'image_raw'"));
}

TEST_F(DatasetTest, GzipWithoutCacheIsRefusedAsUsage) {
  const Failure failure = failure_of([] { open({sample_path("tensorflow_gzip.tfrecord")}, CacheMode::none); });
  EXPECT_EQ(failure.code, ExitCode::usage);
  EXPECT_THAT(failure.text, HasSubstr("GZIP"));
}

TEST_F(DatasetTest, AutomaticCachesWhatFitsThisRanksShareOfMemory) {
  const std::vector<std::string> plain = {write("a", mnist_records(10))};
  EXPECT_TRUE(Dataset::open(plain, mnist_decoder, CacheMode::automatic, 2).in_memory());
  constexpr int crowd = 2'000'000'000;  // number of ranks that share the memory; each rank may therefore use only a few
                                        // bytes
  EXPECT_FALSE(Dataset::open(plain, mnist_decoder, CacheMode::automatic, crowd).in_memory());
  EXPECT_TRUE(Dataset::open(plain, mnist_decoder, CacheMode::memory, crowd).in_memory());
  const std::vector<std::string> gzip = {sample_path("tensorflow_gzip.tfrecord")};
  const Failure failure = failure_of([&] { Dataset::open(gzip, mnist_decoder, CacheMode::automatic, crowd); });
  EXPECT_EQ(failure.code, ExitCode::usage);
  EXPECT_THAT(failure.text, HasSubstr("GZIP files require the cache"));
}

TEST_F(DatasetTest, AutomaticJudgesBySeveralRecordsAndGivesUpACacheThatGrowsTooLarge) {
  constexpr int large_count = 100, small_count = 4000;
  std::string bytes, large(1 << 16, 'x');
  for (int i = 0; i < large_count + small_count; ++i) {
    proto::Example example;
    example.ParseFromString(mnist_example(i % 256, i % 10));
    auto& features = *example.mutable_features()->mutable_feature();
    if (i < large_count) features["thumbnail"].mutable_bytes_list()->add_value(large);
    append_record(bytes, example.SerializeAsString());
  }
  // The first records are larger than the other records. Therefore the dataset estimates too few records, and begins a
  // cache although the memory is large enough for only half of the images.
  const std::vector<std::string> files = {write("a", bytes)};
  const std::uint64_t limit = 784 * small_count / 2;
  const int ranks = static_cast<int>(available_memory_bytes() / 2 / limit);
  const Dataset dataset = Dataset::open(files, mnist_decoder, CacheMode::automatic, ranks);
  EXPECT_FALSE(dataset.in_memory());
  ASSERT_EQ(dataset.size(), static_cast<std::size_t>(large_count + small_count));
  std::vector<std::uint8_t> image(784);
  EXPECT_EQ(read_class(dataset, 4001, 4001, image), 1);
  EXPECT_EQ(dataset.fingerprint(), open(files).fingerprint());
}

TEST_F(DatasetTest, AutomaticIsNotMisledByAFirstRecordUnlikeTheOthers) {
  std::string bytes, thumbnail(1 << 16, 'x');
  append_record(bytes, mnist_example(0, 0));
  for (int i = 0; i < 200; ++i) {
    proto::Example example;
    example.ParseFromString(mnist_example(1, 1));
    (*example.mutable_features()->mutable_feature())["thumbnail"].mutable_bytes_list()->add_value(thumbnail);
    append_record(bytes, example.SerializeAsString());
  }
  const std::vector<std::string> files = {write("a", bytes)};  // as large as 16,000 records of the first record's size
  const int ranks = static_cast<int>(available_memory_bytes() / 2 / (784 * 2000));
  EXPECT_TRUE(Dataset::open(files, mnist_decoder, CacheMode::automatic, ranks).in_memory());
}

TEST_F(DatasetTest, TheFingerprintIsOfTheRecordsNotOfTheFiles) {
  const std::string all = mnist_records(4);
  const std::string half = all.substr(0, all.size() / 2), other_half = all.substr(all.size() / 2);
  const std::uint32_t whole = open({write("all", all)}).fingerprint();
  EXPECT_EQ(open({write("1", half), write("2", other_half)}).fingerprint(), whole);
  EXPECT_EQ(open({path("all")}, CacheMode::none).fingerprint(), whole);
  EXPECT_EQ(open({write("gz", gzip_member(all))}).fingerprint(), whole);
  EXPECT_NE(open({path("2"), path("1")}).fingerprint(), whole);
  EXPECT_NE(open({path("1")}).fingerprint(), whole);
}

TEST_F(DatasetTest, FiveThousandShardsOpenUnderADescriptorLimitOf256) {
  const std::string record = mnist_records(1);
  for (int shard = 0; shard < 5000; ++shard) write(fmt::format("shard-{:05}", shard), record);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = 256, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  for (const CacheMode cache : {CacheMode::memory, CacheMode::automatic, CacheMode::none}) {
    const Dataset dataset = open({path("shard-*")}, cache);
    std::vector<std::uint8_t> image(784);
    EXPECT_EQ(dataset.size(), 5000u);
    EXPECT_EQ(read_class(dataset, 4999, 4999, image), 0);
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(DatasetTest, SeveralThreadsReadAtOnce) {
  const Dataset dataset = open({write("a", mnist_records(200))}, CacheMode::none);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      std::vector<std::uint8_t> image(784);
      for (int round = 0; round < 20; ++round)
        for (std::size_t i = 0; i < dataset.size(); ++i)
          if (read_class(dataset, i, i, image) != static_cast<int>(i % 10) || image[5] != i) ++wrong;
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace carillon

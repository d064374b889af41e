// Tests that run tfrecord_convert and tfrecord_inspect as a user does: their files, output and exit codes.
#include <gmock/gmock.h>

#include <array>
#include <csignal>

#include "src/data/convert/shard_writer.h"
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

using testing::HasSubstr;
using testing::Not;

class ProgramsTest : public ProgramFixture {
 protected:
  static std::string big_endian(std::initializer_list<std::uint32_t> words) {
    std::string bytes;
    for (const std::uint32_t word : words)
      for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
    return bytes;
  }
  /// Returns an IDX file of `count` images. All pixels of image i have the value `shade` + i.
  static std::string idx_images(int count, int shade = 0) {
    std::string bytes = big_endian({0x803, static_cast<std::uint32_t>(count), 28, 28});
    for (int i = 0; i < count; ++i) bytes += std::string(784, static_cast<char>(shade + i));
    return bytes;
  }
  static std::string idx_labels(int count) {
    std::string bytes = big_endian({0x801, static_cast<std::uint32_t>(count)});
    for (int i = 0; i < count; ++i) bytes += static_cast<char>(i % 10);
    return bytes;
  }
  void write_idx(bool gzip = false) const {
    const auto put = [&](const std::string& name, const std::string& bytes) {
      gzip ? write(name + ".gz", gzip_member(bytes)) : write(name, bytes);
    };
    put("train-images-idx3-ubyte", idx_images(25));
    put("train-labels-idx1-ubyte", idx_labels(25));
    put("t10k-images-idx3-ubyte", idx_images(4, 100));
    put("t10k-labels-idx1-ubyte", idx_labels(4));
  }
  std::string convert(const std::string& more = "") const {
    return "tfrecord_convert mnist --input " + directory_.string() + " --output " + path("out") + " " + more;
  }
  Dataset open(const std::string& pattern) const {
    const std::vector<std::string> patterns = {path("out/" + pattern)};
    return Dataset::open(patterns, mnist_decoder);
  }
};

TEST_F(ProgramsTest, MnistIsConvertedInSourceOrder) {
  write_idx();
  const Outcome outcome = run(convert());
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("25 records"));
  const Dataset train = open("train-00000-of-00001.tfrecord"), test = open("test-00000-of-00001.tfrecord");
  ASSERT_EQ(train.size(), 25u);
  ASSERT_EQ(test.size(), 4u);
  for (std::size_t i = 0; i < 25; ++i) {
    EXPECT_EQ(class_of(train.target(i)), i % 10);
    EXPECT_EQ(train.image(i)[783], i);
  }
  EXPECT_EQ(test.image(3)[0], 103);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("out")), {}), 2);  // no temporary file is left
}

TEST_F(ProgramsTest, ConvertedRecordsHoldTheNumberOfPixelsAsOneValue) {
  ImageSplit split{.name = "train", .image_bytes = 784, .images = std::vector<std::uint8_t>(2 * 784), .labels = {3, 4}};
  for (std::size_t i = 0; i < split.images.size(); ++i) split.images[i] = static_cast<std::uint8_t>(i);
  proto::Example example;
  encode_mnist(split, 1, example);
  const auto& features = example.features().feature();
  ASSERT_EQ(features.size(), 3u);
  const auto& pixels = features.at("pixels").int64_list().value();
  ASSERT_EQ(pixels.size(), 1);  // one value, because the reference program can read only one value
  EXPECT_EQ(pixels[0], 784);
  EXPECT_EQ(features.at("image_raw").bytes_list().value(0)[1], static_cast<char>(785));
  EXPECT_EQ(features.at("label").int64_list().value(0), 4);
}

TEST_F(ProgramsTest, RecordsAreReadWhateverTheyHoldAsPixels) {
  // In files of earlier versions and in TensorFlow's samples, the feature "pixels" holds the values of all pixels.
  ImageSplit split{.name = "train", .image_bytes = 784, .images = std::vector<std::uint8_t>(784, 200), .labels = {3}};
  proto::Example example;
  encode_mnist(split, 0, example);
  std::string bytes;
  append_record(bytes, example.SerializeAsString());
  auto& pixels = *(*example.mutable_features()->mutable_feature())["pixels"].mutable_int64_list()->mutable_value();
  pixels.Clear();
  pixels.Add(split.images.begin(), split.images.end());
  append_record(bytes, example.SerializeAsString());
  const std::vector<std::string> patterns = {write("both", bytes)};
  const Dataset dataset = Dataset::open(patterns, mnist_decoder);
  ASSERT_EQ(dataset.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(class_of(dataset.target(i)), 3);
    EXPECT_EQ(dataset.image(i)[783], 200);
  }
}

TEST_F(ProgramsTest, GzipSourceAndAnyShardCountGiveTheSameRecords) {
  write_idx(true);
  ASSERT_EQ(run(convert()).code, 0);
  const std::uint32_t whole = open("train-*").fingerprint();
  std::filesystem::remove_all(path("out"));
  ASSERT_EQ(run(convert("--shards 4")).code, 0);
  EXPECT_EQ(open("train-*-of-00004.tfrecord").fingerprint(), whole);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("out")), {}), 8);
}

/// If the process is killed between the renames, the folder must not contain the training images of one dataset and the
/// test images of another dataset.
TEST_F(ProgramsTest, AllSplitsOfMnistAreReplacedTogether) {
  write_idx();
  ASSERT_EQ(run(convert()).code, 0);
  write("train-images-idx3-ubyte", idx_images(25, 50));
  const std::string fault = fmt::format(
      "env LD_PRELOAD={}/libfaulty_calls.so FAULT_CALL=rename FAULT_PATH='{}/*' FAULT_NTH=3 FAULT_ACTION=kill-before ",
      CARILLON_PROGRAMS, path("out"));
  ASSERT_EQ(run(convert(), fault).code, 128 + SIGKILL);
  expect_failure("tfrecord_inspect " + path("out/test-*"), ExitCode::data, "tfrecord_convert --finish");
  EXPECT_EQ(run(convert()).code, 0);
  EXPECT_EQ(run("tfrecord_inspect " + path("out/t*")).code, 0);
}

TEST_F(ProgramsTest, IdxFilesHaveTheNamesOfProgramsAndRelatives) {
  write_idx();
  ASSERT_EQ(run(convert()).code, 0);
  const std::uint32_t whole = open("train-*").fingerprint(), test = open("test-*").fingerprint();
  using Names = std::array<std::string, 4>;
  const std::string inner = "train-images-idx3-ubyte/train-images-idx3-ubyte";
  for (const Names& names :
       {Names{"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"},
        Names{inner, "train-labels-idx1-ubyte/train-labels-idx1-ubyte", "t10k-images-idx3-ubyte/t10k-images.idx3-ubyte",
              "t10k-labels-idx1-ubyte/t10k-labels-idx1-ubyte"},
        Names{inner, "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte", "T10K-LABELS-IDX1-UBYTE"},
        Names{"emnist-digits-train-images-idx3-ubyte", "emnist-digits-train-labels-idx1-ubyte",
              "emnist-digits-test-images-idx3-ubyte", "emnist-digits-test-labels-idx1-ubyte"},
        Names{"MNIST/raw/train-images-idx3-ubyte", "MNIST/raw/train-labels-idx1-ubyte",
              "MNIST/raw/test-images-idx3-ubyte", "MNIST/raw/test-labels-idx1-ubyte"}}) {
    std::filesystem::remove_all(directory_);
    const std::array<std::string, 4> bytes{idx_images(25), idx_labels(25), idx_images(4, 100), idx_labels(4)};
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::filesystem::create_directories((directory_ / names[i]).parent_path());
      write(names[i], bytes[i]);
    }
    const Outcome outcome = run(convert());
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(open("train-*").fingerprint(), whole) << names[0];
    EXPECT_EQ(open("test-*").fingerprint(), test) << names[0];
  }
}

TEST_F(ProgramsTest, IdxFilesThatAreMissingOrAmbiguousAreNamed) {
  write_idx();
  // 7-Zip unpacks the archive to a name with a dot. If a file with this name exists, the program must not read the
  // archive.
  std::filesystem::rename(path("train-images-idx3-ubyte"), path("train-images.idx3-ubyte"));
  write("train-images-idx3-ubyte.gz", "no archive");
  ASSERT_EQ(run(convert()).code, 0);
  write("emnist-mnist-train-images-idx3-ubyte", idx_images(25));
  expect_failure(convert(), ExitCode::data, "both hold the images of the split train: keep one of them");
  std::filesystem::remove(path("emnist-mnist-train-images-idx3-ubyte"));
  std::filesystem::remove(path("t10k-labels-idx1-ubyte"));
  expect_failure(convert(), ExitCode::no_input,
                 directory_.string() + ": holds no file t10k-labels-idx1-ubyte, with or without .gz");
}

/// The files of both datasets have the same names and lengths.
TEST_F(ProgramsTest, TwoSetsInOneFolderAreNotMixed) {
  write_idx();
  for (const char* const set : {"digits", "clothes"}) {
    std::filesystem::create_directories(path(set));
    for (const char* const file :
         {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
      std::filesystem::copy_file(path(file), path(std::string(set) + "/" + file));
    }
  }
  for (const char* const file :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    std::filesystem::remove(path(file));
  }
  expect_failure(convert(), ExitCode::data, "both hold the images of the split train: keep one of them");
}

TEST_F(ProgramsTest, ShardsOfAnotherCountAreNotMixed) {
  write_idx();
  ASSERT_EQ(run(convert("--shards 2")).code, 0);
  ASSERT_EQ(run(convert("--shards 2")).code, 0);
  expect_failure(convert(), ExitCode::usage, "another --shards");
}

TEST_F(ProgramsTest, DamagedIdxFilesAreNamed) {
  const auto refuse = [&](const std::string& name, const std::string& bytes, const std::string& text) {
    write_idx();
    write(name, bytes);
    expect_failure(convert(), ExitCode::data, path(name) + ": " + text);
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  };
  const std::string images = "train-images-idx3-ubyte", labels = "t10k-labels-idx1-ubyte";
  refuse(images, idx_labels(25), "starts with 00000801 instead of 00000803");
  refuse(images, "", "0 bytes are less than an IDX file's header of 16 bytes");
  refuse(images, idx_images(25).substr(0, 5000), "truncated: 4984 bytes of data");
  refuse(images, gzip_member(idx_images(25)).substr(0, 60), "the GZIP data is truncated");
  refuse(images, big_endian({0x803, 0xFFFFFFFF, 28, 28}), "truncated: 0 bytes");
  refuse(images, idx_images(25) + "x", "trailing bytes");
  refuse(images, big_endian({0x803, 25, 32, 28}), "dimension 1 is 32, not 28");
  refuse(images, idx_images(24), "24 images, but");
  refuse(labels, big_endian({0x801, 4}) + std::string("\x01\x02\x03\x0A"), "item 3: label 10 is outside 0..9");
}

TEST_F(ProgramsTest, ConvertRefusesBadUsage) {
  expect_failure("tfrecord_convert", ExitCode::usage, "no format");
  expect_failure("tfrecord_convert imagenet --input a --output b", ExitCode::usage, "unknown format 'imagenet'");
  expect_failure("tfrecord_convert mnist a --output b", ExitCode::usage, "'a' belongs to no option");
  expect_failure("tfrecord_convert mnist --output b", ExitCode::usage, "--input");
  expect_failure("tfrecord_convert mnist --input a", ExitCode::usage, "--output");
  expect_failure("tfrecord_convert mnist --input a --output b --verbose", ExitCode::usage, "--verbose");
  expect_failure("tfrecord_convert mnist --input /no/where --output b", ExitCode::no_input, "/no/where");
  write_idx();
  expect_failure(convert("--shards 0"), ExitCode::usage, "--shards 0");
  expect_failure(convert("--shards 5"), ExitCode::usage, "--shards 5: must be at most the 4 records of test");
  expect_failure(convert("--shards x"), ExitCode::usage, "--shards");
}

TEST_F(ProgramsTest, InspectShowsCountsFeaturesAndLabels) {
  const Outcome outcome = run("tfrecord_inspect --verify " + sample_path("more_features.tfrecord") + " " +
                              sample_path("tensorflow_gzip.tfrecord"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("20 records, 37240 bytes of data, 37560 bytes on disk; all checksums right"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("image_raw +bytes +20 +1 +784"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("names +bytes +20 +3 +0..5"));
  EXPECT_THAT(outcome.output, testing::ContainsRegex("weights +float +20 +2"));
  EXPECT_THAT(outcome.output, HasSubstr("(GZIP)"));
}

TEST_F(ProgramsTest, InspectNamesTheFirstDamage) {
  std::string bytes = mnist_records(3);
  bytes[bytes.size() / 3 + 100] ^= 1;
  const std::string file = write("damaged", bytes);
  expect_failure("tfrecord_inspect --verify " + file, ExitCode::data,
                 fmt::format("{}: record 1 at byte {}: ", file, bytes.size() / 3));
  const std::string cut = write("cut", mnist_records(3).substr(0, 100));
  expect_failure("tfrecord_inspect " + cut, ExitCode::data, cut + ": record 0 at byte 0: ");
}

TEST_F(ProgramsTest, InspectWithoutVerifyDoesNotReadDataChecksums) {
  std::string bytes = mnist_records(1);
  bytes.back() ^= 1;
  const Outcome outcome = run("tfrecord_inspect " + write("a", bytes));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("of data not checked"));
}

TEST_F(ProgramsTest, InspectRefusesBadUsage) {
  expect_failure("tfrecord_inspect", ExitCode::usage, "no files");
  expect_failure("tfrecord_inspect --check a", ExitCode::usage, "--check");
  expect_failure("tfrecord_inspect /no/where", ExitCode::no_input, "/no/where");
}

TEST_F(ProgramsTest, HelpIsPrintedWithExitCodes) {
  for (const char* program : {"tfrecord_convert", "tfrecord_inspect"}) {
    const Outcome outcome = run(std::string(program) + " --help");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.output, HasSubstr("exit codes"));
  }
}

}  // namespace
}  // namespace carillon

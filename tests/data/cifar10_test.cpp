// Tests of CIFAR-10: tfrecord_convert reads folders and archives, and records of other formats are rejected.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "carillon/data/decoder.h"
#include "tests/data/archives.h"
#include "tests/data/program_fixture.h"

namespace carillon {
namespace {

using testing::HasSubstr;

constexpr std::size_t image_bytes = 3072, record_bytes = 3073;
const std::shared_ptr<const RecordDecoder> cifar10_decoder =
    planar_records({.keys = {.image = "image", .label = "label"}, .image_shape = {32, 32, 3}, .class_count = 10});
const std::string batch_names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                   "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

/// Returns two records with the labels `shade` and `shade` + 1. Each byte of an image is the image's label + 10.
std::string batch(int shade) {
  std::string bytes;
  for (int i = shade; i < shade + 2; ++i)
    bytes += static_cast<char>(i) + std::string(image_bytes, static_cast<char>(i + 10));
  return bytes;
}

std::string image_of(const Dataset& dataset, std::size_t i) {
  return {reinterpret_cast<const char*>(dataset.image(i)), dataset.image_bytes()};
}

class Cifar10Test : public ProgramFixture {
 protected:
  std::string write_folder(const std::string& name) const {
    std::filesystem::create_directories(path(name));
    for (int i = 0; i < 6; ++i) write(name + "/" + batch_names[i], batch(i));
    return path(name);
  }
  /// Returns a tar archive of the dataset, in which the file `changed` has the content `content`.
  static std::string archive(const std::string& changed = "", const std::string& content = "") {
    std::string bytes = tar_member("./", "", '5') + tar_member("././@LongLink", "a/test_batch.bin", 'L');
    for (int i = 5; i >= 0; --i) {
      bytes +=
          tar_member(i == 5 ? "a/cut_name" : "a/" + batch_names[i], batch_names[i] == changed ? content : batch(i));
    }
    return bytes + std::string(1024, '\0');
  }
  std::string convert(const std::string& input, const std::string& more = "") const {
    return "tfrecord_convert cifar10 --input " + input + " --output " + path("out") + " " + more;
  }
  Dataset converted(const std::string& input, const std::string& pattern) const {
    std::filesystem::remove_all(path("out"));
    const Outcome outcome = run(convert(input));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return open({path("out/" + pattern)});
  }
  static Dataset open(const std::vector<std::string>& patterns) { return Dataset::open(patterns, cifar10_decoder); }
  void refuse(const std::string& input, const std::string& text, ExitCode code = ExitCode::data) const {
    expect_failure(convert(input), code, text);
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  }
  /// Opens records with one image each. Returns the failure, if there is one.
  Failure open_images(const std::vector<std::string>& images, CacheMode cache = CacheMode::memory) const {
    std::string bytes;
    for (const std::string& image : images) {
      proto::Example example;
      auto& features = *example.mutable_features()->mutable_feature();
      features["image"].mutable_bytes_list()->add_value(image);
      features["label"].mutable_int64_list()->add_value(3);
      append_record(bytes, example.SerializeAsString());
    }
    const std::vector<std::string> patterns = {write("images", bytes)};
    return failure_of([&] { Dataset::open(patterns, cifar10_decoder, cache); });
  }
};

TEST_F(Cifar10Test, AFolderItsParentAndArchivesGiveTheSameRecords) {
  const std::string folder = write_folder("parent/cifar-10-batches-bin");
  const Dataset train = converted(folder, "train-00000-of-00001.tfrecord");
  ASSERT_EQ(train.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    const std::size_t shade = i / 2 + i % 2;
    EXPECT_EQ(class_of(train.target(i)), shade);
    EXPECT_EQ(image_of(train, i), std::string(image_bytes, static_cast<char>(shade + 10)));
  }
  const std::uint32_t expected = train.fingerprint();
  EXPECT_EQ(converted(path("parent"), "train-*").fingerprint(), expected);
  EXPECT_EQ(converted(write("a.tar", archive()), "train-*").fingerprint(), expected);
  for (const char* compression : {"xz", "bzip2", "zstd"}) {
    EXPECT_EQ(converted(write("a.tar.x", compressed(archive(), compression)), "train-*").fingerprint(), expected);
  }
  const Dataset test = converted(write("a.tar.gz", gzip_member(archive())), "test-*");
  EXPECT_EQ(open({path("out/train-*")}).fingerprint(), expected);
  ASSERT_EQ(test.size(), 2u);
  EXPECT_EQ(class_of(test.target(1)), 6);
}

TEST_F(Cifar10Test, PythonsArchiveGivesTensorFlowsRecords) {
  const Dataset train = converted(sample_path("cifar10.tar.gz"), "train-*");
  const Dataset expected = open({sample_path("cifar10.tfrecord")});
  ASSERT_EQ(train.size(), expected.size());
  for (std::size_t i = 0; i < train.size(); ++i) {
    EXPECT_EQ(class_of(train.target(i)), class_of(expected.target(i)));
    EXPECT_EQ(image_of(train, i), image_of(expected, i));
  }
}

TEST_F(Cifar10Test, ShardsKeepTheOrder) {
  const std::string folder = write_folder("in");
  const std::uint32_t whole = converted(folder, "train-*").fingerprint();
  std::filesystem::remove_all(path("out"));
  ASSERT_EQ(run(convert(folder, "--shards 2")).code, 0);
  EXPECT_EQ(open({path("out/train-*-of-00002.tfrecord")}).fingerprint(), whole);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("out")), {}), 4);
}

TEST_F(Cifar10Test, DamagedFilesAreNamed) {
  const auto refuse_file = [&](const std::string& name, const std::string& bytes, const std::string& text) {
    write_folder("in");
    write("in/" + name, bytes);
    refuse(path("in"), path("in/" + name) + ": " + text);
    refuse(write("a.tar.gz", gzip_member(archive(name, bytes))), "a.tar.gz: a/" + name + ": " + text);
  };
  refuse_file("data_batch_3.bin", batch(2).substr(0, 5000), "5000 bytes, not a whole number of records of 3073 bytes");
  refuse_file("test_batch.bin", "", "0 bytes, not a whole number");
  refuse_file("data_batch_5.bin", batch(4).substr(0, record_bytes),
              "3073 bytes, but data_batch_1.bin has 6146: one of them is truncated");
  std::string bytes = batch(0);
  bytes[record_bytes] = 10;
  refuse_file("data_batch_1.bin", bytes, "record 1 at byte 3073: label 10 is outside 0..9");
}

TEST_F(Cifar10Test, MissingFilesAreNamed) {
  refuse(path("nowhere"), path("nowhere") + ": no such folder or archive", ExitCode::no_input);
  write_folder("in");
  std::filesystem::remove(path("in/data_batch_4.bin"));
  refuse(path("in"), path("in/data_batch_4.bin") + ": no such file", ExitCode::no_input);
  refuse(write("a.tar", tar_member("test_batch.bin", batch(0)) + std::string(1024, '\0')),
         "contains no file data_batch_1.bin");
  refuse(write("b.tar", tar_member("test_batch.bin", "", '2') + archive().substr(0, 512)), "contains no file");
}

TEST_F(Cifar10Test, OtherArchivesAreNamed) {
  refuse(write("a.zip", "PK\x03\x04" + std::string(600, '\0')), "is a zip file; unpack it first");
  refuse(write("python.tar", tar_member("p/test_batch", "x") + std::string(1024, '\0')),
         "contains CIFAR-10's Python version");
  std::filesystem::create_directories(path("python"));
  write("python/test_batch", "x");
  refuse(path("python"), "contains CIFAR-10's Python version");
  refuse(write("a.bin", batch(0)), "a.bin: not a tar archive");
  refuse(write("zeros", std::string(10240, '\0')), "not a tar archive");
  refuse(write("empty", ""), "empty: not a tar archive");
}

TEST_F(Cifar10Test, DamagedArchivesAreNamed) {
  const std::string whole = archive();
  const std::size_t third = whole.find("a/data_batch_5.bin");
  std::string bytes = whole;
  bytes[third + 3] ^= 1;
  refuse(write("a.tar", bytes), "a.tar: the archive is damaged or truncated after 'a/test_batch.bin' (");
  refuse(write("a.tar", whole.substr(0, third + 100)),
         "a.tar: the archive is damaged or truncated after 'a/test_batch.bin' (");
  refuse(write("a.tar", whole.substr(0, third + 512 + 1000)),
         "a.tar: the archive is truncated: only 1000 of 6146 bytes of 'a/data_batch_5.bin'");
  const std::string gzip = gzip_member(whole);
  refuse(write("a.tar.gz", gzip.substr(0, gzip.size() / 2)), "a.tar.gz: the GZIP data is truncated");
  std::string flipped = gzip;
  flipped[flipped.size() - 6] ^= 1;  // in the checksum
  refuse(write("a.tar.gz", flipped), "a.tar.gz: the GZIP data is damaged");
  const std::string xz = compressed(whole, "xz");
  refuse(write("a.tar.xz", xz.substr(0, xz.size() - 20)), "a.tar.xz: the xz data is damaged or truncated");
  refuse(write("a.tar", whole.substr(0, whole.size() - 1024) + tar_member("b/test_batch.bin", batch(0))),
         "contains test_batch.bin twice");
}

TEST_F(Cifar10Test, ImagesOfAnotherSizeAreRecognised) {
  const auto text = [&](const std::string& image) {
    const Failure failure = open_images({image});
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr(path("images") + ": record 0 at byte 0: feature 'image' has"));
    return failure.text;
  };
  EXPECT_THAT(text(std::string(1728, 'x')), HasSubstr("has 1728 bytes, not 3072: looks like 24x24x3"));
  EXPECT_THAT(text(std::string(1024, 'x')), HasSubstr("has 1024 bytes, not 3072: looks like a grey 32x32 image"));
  EXPECT_THAT(text(std::string(784, 'x')), HasSubstr("looks like a grey 28x28 image"));
  EXPECT_THAT(text(std::string(12288, 'x')), HasSubstr("looks like 32x32x3 of float32"));
  EXPECT_THAT(text(std::string(3073, 'x')), HasSubstr("looks like a record of CIFAR-10's binary version"));
  EXPECT_THAT(text("\x89PNG\r\n\x1a\n and so on"), HasSubstr("looks like a PNG file"));
  EXPECT_THAT(text(std::string(999, 'x')), testing::EndsWith("has 999 bytes, not 3072"));
}

TEST_F(Cifar10Test, InterleavedImagesAreRefused) {
  const Dataset planar = open({sample_path("cifar10.tfrecord")});
  std::vector<std::string> images, interleaved;
  for (std::size_t i = 0; i < planar.size(); ++i) {
    interleaved.push_back(image_of(planar, i));
    std::string& image = images.emplace_back(image_bytes, '\0');
    for (std::size_t k = 0; k < image_bytes; ++k) image[k] = interleaved[i][k % 1024 * 3 + k / 1024];
  }
  EXPECT_EQ(open_images(images).text, "");
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    const Failure failure = open_images(interleaved, cache);
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr(path("images") + ": the images in feature 'image' look interleaved (HWC"));
  }
}

TEST_F(Cifar10Test, ImagesThatTellNothingOfTheirOrderAreAccepted) {
  EXPECT_EQ(open_images({std::string(image_bytes, 'x')}).text, "");
  std::string noise(image_bytes, '\0');
  std::uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  EXPECT_EQ(open_images({noise}).text, "");
}

}  // namespace
}  // namespace carillon

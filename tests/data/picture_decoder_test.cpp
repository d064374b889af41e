// Tests of records of pictures: which image is made from a record at a stream position, and which records are rejected.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "src/data/decode/dataset_info.h"
#include "src/data/loading/batch_loader.h"
#include "tests/data/dataset_infos.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;

class PictureRecords : public ScratchTest {
 protected:
  static std::string picture(const std::string& name) { return read_bytes(sample_path("../pictures/" + name)); }

  static std::string example(const std::string& file, std::int64_t label) {
    const DatasetInfo form;
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features[form.keys.image].mutable_bytes_list()->add_value(file);
    features[form.keys.label].mutable_int64_list()->add_value(label);
    return example.SerializeAsString();
  }

  static RecordSchema schema() {
    return {.keys = DatasetInfo{}.keys, .image_shape = {24, 24, 3}, .class_count = 2, .first_label = 1};
  }

  static std::vector<std::uint8_t> decoded(const PictureDecoding& decoding, const std::string& file,
                                           std::uint64_t position, std::int64_t label = 1) {
    const auto decoder = make_picture_decoder(schema(), decoding);
    std::vector<std::uint8_t> image(decoder->image_shape().bytes());
    const std::string record = example(file, label);
    decoder->decode({reinterpret_cast<const std::uint8_t*>(record.data()), record.size()}, position, image,
                    std::as_writable_bytes(std::span(&last_label, 1)));
    return image;
  }

  /// Writes `count` records of several pictures. The labels are 1 and 2 in turn.
  std::string set_of(int count) const {
    std::string bytes;
    const std::array names{"colour.jpg", "grey.jpg", "colour.png", "cmyk.jpg", "interlaced.png"};
    for (int i = 0; i < count; ++i)
      append_record(bytes, example(picture(names[static_cast<std::size_t>(i) % 5]), i % 2 + 1));
    return write("train", bytes);
  }

  const PictureDecoding training_{.distorts = true, .seed = 3, .shorter = 27}, evaluation_{.shorter = 27};
  inline static std::int32_t last_label = -1;
};

TEST_F(PictureRecords, LabelsBeginWhereTheSchemaSays) {
  decoded(evaluation_, picture("colour.jpg"), 0, 2);
  EXPECT_EQ(last_label, 1);
  const Failure failure = failure_of([&] { decoded(evaluation_, picture("colour.jpg"), 0, 0); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr("feature 'image/class/label' is 0, outside 1..2"));
}

TEST_F(PictureRecords, ADamagedPictureIsNamedByItsFeature) {
  const Failure failure = failure_of([&] { decoded(evaluation_, picture("colour.jpg").substr(0, 700), 0); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.text, HasSubstr("feature 'image/encoded' is damaged"));
}

TEST_F(PictureRecords, ToEvaluateAreAlikeAtEachPosition) {
  EXPECT_EQ(decoded(evaluation_, picture("colour.jpg"), 0), decoded(evaluation_, picture("colour.jpg"), 1));
  EXPECT_FALSE(make_picture_decoder(schema(), evaluation_)->draws());
}

TEST_F(PictureRecords, ToTrainAreAFunctionOfSeedAndPosition) {
  EXPECT_TRUE(make_picture_decoder(schema(), training_)->draws());
  const std::string file = picture("colour.jpg");
  EXPECT_EQ(decoded(training_, file, 5), decoded(training_, file, 5));
  std::set<std::string> seen;
  for (std::uint64_t position = 0; position < 20; ++position) {
    const std::vector<std::uint8_t> image = decoded(training_, file, position);
    seen.emplace(image.begin(), image.end());
  }
  EXPECT_EQ(seen.size(), 20u);
  PictureDecoding other = training_;
  other.seed = 4;
  EXPECT_NE(decoded(training_, file, 5), decoded(other, file, 5));
}

/// Mirroring is drawn before the crop, so the crop is the same with and without mirroring.
TEST_F(PictureRecords, HalfAreMirroredWhereAsked) {
  const std::string file = picture("colour.png");
  PictureDecoding straight = training_;
  straight.mirrors = false;
  int mirrored = 0;
  for (std::uint64_t position = 0; position < 200; ++position) {
    const std::vector<std::uint8_t> image = decoded(training_, file, position);
    std::vector<std::uint8_t> plain = decoded(straight, file, position);
    if (image == plain) continue;
    for (auto row = plain.begin(); row != plain.end(); row += 72) {
      std::reverse(row, row + 72);
      for (auto pixel = row; pixel != row + 72; pixel += 3) std::reverse(pixel, pixel + 3);
    }
    EXPECT_EQ(image, plain);
    ++mirrored;
  }
  EXPECT_GT(mirrored, 70);
  EXPECT_LT(mirrored, 130);
}

TEST_F(PictureRecords, AreAugmentedAfterTheCropByTheirPosition) {
  const std::string file = picture("colour.png");
  PictureDecoding augmenting = training_;
  augmenting.augment = {.op_count = 2, .magnitude = 12};
  augmenting.erasing = 0.5;
  augmenting.erasing_fill = {.red = 1, .green = 2, .blue = 3};
  std::vector<std::uint8_t> scratch;
  std::set<std::string> seen;
  for (std::uint64_t position = 0; position < 20; ++position) {
    std::vector<std::uint8_t> expected = decoded(training_, file, position);
    const AugmentedImage image{expected, 24, 24, scratch};
    PhiloxDraws ops(training_.seed, RandomPurpose::rand_augment, position);
    rand_augment(augmenting.augment, ops, image);
    PhiloxDraws boxes(training_.seed, RandomPurpose::erasing, position);
    random_erasing(0.5, augmenting.erasing_fill, boxes, image);
    EXPECT_EQ(decoded(augmenting, file, position), expected) << position;
    seen.emplace(expected.begin(), expected.end());
  }
  EXPECT_EQ(seen.size(), 20u);
  augmenting.distorts = false;
  EXPECT_EQ(decoded(augmenting, file, 0), decoded(evaluation_, file, 0));
}

TEST_F(PictureRecords, GiveTheSameBatchesAtAnyNumberOfThreads) {
  const std::vector<std::string> patterns{set_of(23)};
  const Dataset dataset = Dataset::open(patterns, make_picture_decoder(schema(), training_));
  EXPECT_FALSE(dataset.in_memory());
  const auto batches = [&](int threads) {
    BatchLoader loader(dataset, SampleOrder(dataset.size(), 1, true), {.start = 11, .global_batch = 4, .batch_size = 4},
                       {.thread_count = threads});
    std::vector<std::uint8_t> all;
    for (int i = 0; i < 12; ++i) {
      const Batch& batch = loader.next();
      for (const std::uint8_t* image : batch.images) all.insert(all.end(), image, image + dataset.image_bytes());
    }
    return all;
  };
  const std::vector<std::uint8_t> one = batches(1);
  for (const int threads : {2, 3, 4}) EXPECT_EQ(batches(threads), one) << threads;
}

class DatasetInfos : public ScratchTest {
 protected:
  DatasetInfo form(const std::string& last_class) const {
    DatasetInfo form;
    form.classes = {"ant", "bee", last_class};
    return form;
  }
  std::string folder(const std::string& name) const {
    std::filesystem::create_directories(path(name));
    return path(name);
  }
};

TEST_F(DatasetInfos, AreReadAsTheyAreWritten) {
  write_dataset_info(folder("a"), form("cat"));
  EXPECT_EQ(read_dataset_info(path("a")), form("cat"));
  EXPECT_EQ(read_bytes(path("a/labels.txt")), "ant\nbee\ncat\n");
  EXPECT_EQ(read_dataset_info(folder("b")), std::nullopt);
}

TEST_F(DatasetInfos, OfFilesInSeveralFoldersMustBeTheSame) {
  write_dataset_info(folder("a"), form("cat"));
  write_dataset_info(folder("b"), form("dog"));
  write("a/train-0", "");
  write("b/train-0", "");
  const std::vector<std::string> one{path("a/train-*")}, both{path("a/train-*"), path("b/train-*")};
  EXPECT_EQ(dataset_info_of_files(one), form("cat"));
  EXPECT_EQ(failure_of([&] { dataset_info_of_files(both); }).code, ExitCode::data);
  write_dataset_info(path("b"), form("cat"));
  EXPECT_EQ(dataset_info_of_files(both), form("cat"));
}

TEST_F(DatasetInfos, AnotherFileOfThatNameIsRefused) {
  for (const char* text :
       {"", "[]", "{}", R"({"carillon_records": 2})",
        R"({"carillon_records": 1, "image_key": "i", "label_key": "l", "first_label": 0, "classes": []})",
        R"({"carillon_records": 1, "image_key": 3, "label_key": "l", "first_label": 0, "classes": ["a"]})"}) {
    write("records.json", text);
    const Failure failure = failure_of([&] { read_dataset_info(directory_); });
    EXPECT_EQ(failure.code, ExitCode::data) << text;
    EXPECT_THAT(failure.text, HasSubstr("records.json")) << text;
  }
}

}  // namespace
}  // namespace carillon

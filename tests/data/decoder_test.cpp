// Decoders: what each form of record must be, and that a set and a loader take any other decoder.
#include "carillon/data/decoder.h"

#include <gmock/gmock.h>

#include <numeric>

#include "src/data/loading/batch_loader.h"
#include "tests/data/fixtures.h"

namespace carillon {
namespace {

using testing::HasSubstr;

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string example(const std::string& image, std::int64_t label, const ExampleKeys& keys) {
  proto::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features[keys.image].mutable_bytes_list()->add_value(image);
  features[keys.label].mutable_int64_list()->add_value(label);
  return example.SerializeAsString();
}

RecordSchema schema_of(const ImageShape& shape) {
  return {.keys = {.image = "picture", .label = "kind"}, .image_shape = shape, .class_count = 3};
}

/// Both forms store the bytes that they are decoded to.
class PixelDecoderTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<RecordDecoder> decoder_ = GetParam() ? make_planar_decoder(schema_of({2, 2, 3}))  //
                                                       : make_grey_decoder(schema_of({3, 4, 1}));
  std::vector<std::uint8_t> image_ = std::vector<std::uint8_t>(12);

  std::int32_t decode(const std::string& image, std::int64_t label,
                      const ExampleKeys& keys = {.image = "picture", .label = "kind"}) {
    return decoder_->decode(bytes_of(example(image, label, keys)), 0, image_);
  }
  void expect_refused(const std::function<void()>& action, const std::string& text) {
    const Failure failure = failure_of(action);
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr(text));
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, PixelDecoderTest, testing::Bool(),
                         [](const auto& form) { return form.param ? "Planar" : "Grey"; });

TEST_P(PixelDecoderTest, PixelsComeAsTheyAreStored) {
  EXPECT_EQ(decode("abcdefghijkl", 2), 2);
  EXPECT_EQ(std::string(image_.begin(), image_.end()), "abcdefghijkl");
  EXPECT_FALSE(decoder_->draws());
}

TEST_P(PixelDecoderTest, ALengthThatIsNotTheImagesIsNamed) {
  expect_refused([&] { decode("abcdefghijk", 2); }, "feature 'picture' has 11 bytes, not 12");
  expect_refused([&] { decode(std::string(784, 'x'), 2); }, "not 12: looks like a grey 28x28 image");
}

TEST_P(PixelDecoderTest, ALabelWithoutAClassIsNamed) {
  EXPECT_EQ(decode("abcdefghijkl", 0), 0);
  expect_refused([&] { decode("abcdefghijkl", 3); }, "feature 'kind' is 3, not in 0..2");
  expect_refused([&] { decode("abcdefghijkl", -1); }, "feature 'kind' is -1, not in 0..2");
  expect_refused([&] { decode("abcdefghijkl", std::int64_t{1} << 32); }, "feature 'kind' is 4294967296");
}

TEST_P(PixelDecoderTest, TheFeaturesNamesAreThoseAskedFor) {
  expect_refused([&] { decode("abcdefghijkl", 2, {.image = "image", .label = "kind"}); }, "no feature 'picture'");
  expect_refused([&] { decode("abcdefghijkl", 2, {.image = "picture", .label = "label"}); }, "no feature 'kind'");
}

TEST(Decoder, AnImageOfTheOtherKindsChannelsIsNoneOfTheFirst) {
  EXPECT_THROW(make_grey_decoder(schema_of({2, 2, 3})), Error);
  EXPECT_THROW(make_planar_decoder(schema_of({3, 4, 1})), Error);
  EXPECT_THROW(make_grey_decoder(schema_of({})), Error);
}

/// A decoder of records of any length, as one of encoded images would be: it draws, and looks at the whole set.
class AnyLengthDecoder final : public RecordDecoder {
 public:
  explicit AnyLengthDecoder(bool draws) : RecordDecoder(schema_of({1, 2, 1})), draws_(draws) {}

  /// Pixels: the record's length, and the position; the label is the first byte.
  std::int32_t decode(std::span<const std::uint8_t> record, std::uint64_t position,
                      std::span<std::uint8_t> image) const override {
    image[0] = static_cast<std::uint8_t>(record.size());
    image[1] = static_cast<std::uint8_t>(position);
    return checked_label(record[0]);
  }
  bool draws() const override { return draws_; }
  std::string find_fault(std::size_t record_count, const ReadImage& read) const override {
    std::vector<std::uint8_t> image(image_shape().bytes());
    read(record_count - 1, image);
    return image[0] == 200 ? "the last record has 200 bytes" : "";
  }

 private:
  bool draws_;
};

class OwnDecoderTest : public ScratchTest {
 protected:
  /// Record i has i + 1 bytes; all begin with 1.
  Dataset open(std::size_t count, bool draws, CacheMode cache = CacheMode::automatic) const {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) append_record(bytes, std::string(i + 1, '\1'));
    const std::vector<std::string> patterns = {write("set", bytes)};
    return Dataset::open(patterns, std::make_shared<AnyLengthDecoder>(draws), cache);
  }
};

TEST_F(OwnDecoderTest, ASetHasTheShapeAndClassesOfItsDecoder) {
  const Dataset set = open(5, false);
  EXPECT_EQ(set.image_shape(), (ImageShape{1, 2, 1}));
  EXPECT_EQ(set.image_bytes(), 2u);
  EXPECT_EQ(set.class_count(), 3);
  EXPECT_TRUE(set.in_memory());
  EXPECT_EQ(set.image(4)[0], 5);
}

TEST_F(OwnDecoderTest, ImagesThatAreDrawnAreNotCached) {
  EXPECT_FALSE(open(5, true).in_memory());
  const Failure failure = failure_of([&] { open(5, true, CacheMode::memory); });
  EXPECT_EQ(failure.code, ExitCode::usage);
  EXPECT_THAT(failure.text, HasSubstr(path("set") + ": its images are drawn anew"));
}

TEST_F(OwnDecoderTest, ADrawIsOfTheStreamPosition) {
  const Dataset set = open(5, true);
  BatchLoader loader(set, SampleOrder(5, 1, true),
                     {.start = 20, .global_batch = 8, .tower_offset = 3, .batch_size = 4});
  SampleOrder order(5, 1, true);
  for (std::uint64_t first = 23; first < 100; first += 8) {
    const Batch& batch = loader.next();
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(batch.images[i][0], order.record_at(first + i) + 1);
      EXPECT_EQ(batch.images[i][1], first + i);
    }
  }
}

TEST_F(OwnDecoderTest, AFaultOfTheSetNamesTheFirstFile) {
  for (const bool draws : {false, true}) {
    const Failure failure = failure_of([&] { open(200, draws); });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_EQ(failure.text, path("set") + ": the last record has 200 bytes");
  }
}

}  // namespace
}  // namespace carillon

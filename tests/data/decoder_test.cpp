// Tests of decoders: which format records must have, and that datasets and loaders accept user-defined decoders.
#include "carillon/data/decoder.h"

#include <gmock/gmock.h>

#include <cmath>
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

/// Tests with records of 12 bytes: planes of 2 x 2 x 3 values, or 3 x 4 grey pixels.
class PixelDecoderTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<RecordDecoder> decoder_ = GetParam() ? planar_records(schema_of({2, 2, 3}))  //
                                                       : grey_records(schema_of({3, 4, 1}));
  std::vector<std::uint8_t> image_ = std::vector<std::uint8_t>(12);

  std::int32_t decode(const std::string& image, std::int64_t label,
                      const ExampleKeys& keys = {.image = "picture", .label = "kind"}) {
    std::int32_t found = -1;
    decoder_->decode(bytes_of(example(image, label, keys)), 0, image_, std::as_writable_bytes(std::span(&found, 1)));
    return found;
  }
  void expect_refused(const std::function<void()>& action, const std::string& text) {
    const Failure failure = failure_of(action);
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr(text));
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, PixelDecoderTest, testing::Bool(),
                         [](const auto& form) { return form.param ? "Planar" : "Grey"; });

TEST_P(PixelDecoderTest, PixelsComeInRows) {
  EXPECT_EQ(decode("abcdefghijkl", 2), 2);
  EXPECT_EQ(std::string(image_.begin(), image_.end()), GetParam() ? "aeibfjcgkdhl" : "abcdefghijkl");
  EXPECT_FALSE(decoder_->draws());
}

TEST_P(PixelDecoderTest, ALengthThatIsNotTheImagesIsNamed) {
  expect_refused([&] { decode("abcdefghijk", 2); }, "feature 'picture' has 11 bytes, not 12");
  expect_refused([&] { decode(std::string(784, 'x'), 2); }, "not 12: looks like a grey 28x28 image");
}

TEST_P(PixelDecoderTest, ALabelWithoutAClassIsNamed) {
  EXPECT_EQ(decode("abcdefghijkl", 0), 0);
  expect_refused([&] { decode("abcdefghijkl", 3); }, "feature 'kind' is 3, outside 0..2");
  expect_refused([&] { decode("abcdefghijkl", -1); }, "feature 'kind' is -1, outside 0..2");
  expect_refused([&] { decode("abcdefghijkl", std::int64_t{1} << 32); }, "feature 'kind' is 4294967296");
}

TEST_P(PixelDecoderTest, TheFeaturesNamesAreThoseAskedFor) {
  expect_refused([&] { decode("abcdefghijkl", 2, {.image = "image", .label = "kind"}); }, "no feature 'picture'");
  expect_refused([&] { decode("abcdefghijkl", 2, {.image = "picture", .label = "label"}); }, "no feature 'kind'");
}

/// Tests with records whose feature "kind" is a list of any type.
class TargetDecoderTest : public testing::Test {
 protected:
  static std::unique_ptr<RecordDecoder> decoder(TargetKind kind, std::vector<NumberScale> scales = {}) {
    RecordSchema schema = schema_of({2, 2, 1});
    schema.first_label = 1;
    schema.target = kind;
    schema.scales = std::move(scales);
    return grey_records(schema);
  }

  template <typename T>
  static std::vector<T> decode(const RecordDecoder& decoder, const proto::Feature& feature) {
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["picture"].mutable_bytes_list()->add_value("abcd");
    features["kind"] = feature;
    std::vector<std::uint8_t> image(4);
    std::vector<T> target(3, static_cast<T>(7));
    const std::string record = example.SerializeAsString();
    decoder.decode(bytes_of(record), 0, image, std::as_writable_bytes(std::span(target)));
    EXPECT_EQ(std::string(image.begin(), image.end()), "abcd");
    std::vector<T> alone(3, static_cast<T>(7));
    decoder.decode_target(bytes_of(record), std::as_writable_bytes(std::span(alone)));
    EXPECT_EQ(alone, target) << "decode_target";
    return target;
  }
  static proto::Feature integers(std::initializer_list<std::int64_t> values) {
    proto::Feature feature;
    feature.mutable_int64_list();
    for (const std::int64_t value : values) feature.mutable_int64_list()->add_value(value);
    return feature;
  }
  static proto::Feature floats(std::initializer_list<float> values) {
    proto::Feature feature;
    for (const float value : values) feature.mutable_float_list()->add_value(value);
    return feature;
  }
  static void expect_refused(const std::function<void()>& action, const std::string& text) {
    const Failure failure = failure_of(action);
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_THAT(failure.text, HasSubstr(text));
  }
};

TEST_F(TargetDecoderTest, LabelsBecomeOneByteForEach) {
  const auto labels = decoder(TargetKind::labels);
  EXPECT_EQ(labels->target_spec(), (TargetSpec{DType::u8, {3}}));
  EXPECT_EQ(decode<std::uint8_t>(*labels, integers({3, 1, 3})), (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_EQ(decode<std::uint8_t>(*labels, integers({})), (std::vector<std::uint8_t>{0, 0, 0}));
  EXPECT_EQ(decode<std::uint8_t>(*labels, {}), (std::vector<std::uint8_t>{0, 0, 0}));
}

TEST_F(TargetDecoderTest, NumbersAreStandardised) {
  const auto numbers = decoder(TargetKind::numbers, {{}, {.mean = 10.0, .deviation = 4.0}, {.mean = -1.0}});
  EXPECT_EQ(numbers->target_spec(), (TargetSpec{DType::f32, {3}}));
  EXPECT_EQ(decode<float>(*numbers, floats({0.5f, 12.0f, 1.0f})), (std::vector<float>{0.5f, 0.5f, 2.0f}));
  EXPECT_EQ(decode<float>(*numbers, integers({2, 2, 2})), (std::vector<float>{2.0f, -2.0f, 3.0f}));
  EXPECT_EQ(decode<float>(*decoder(TargetKind::numbers), floats({0.5f, 12.0f, 1.0f})),
            (std::vector<float>{0.5f, 12.0f, 1.0f}));
}

TEST_F(TargetDecoderTest, UnsuitableTargetsAreNamed) {
  const auto labels = decoder(TargetKind::labels), numbers = decoder(TargetKind::numbers);
  expect_refused(
      [&] {
        decode<std::uint8_t>(*labels, integers({1, 4}));
      },
      "feature 'kind' has the label 4, outside 1..3");
  expect_refused([&] { decode<std::uint8_t>(*labels, integers({0})); }, "feature 'kind' has the label 0, outside 1..3");
  expect_refused([&] { decode<std::uint8_t>(*labels, floats({1.0f})); }, "feature 'kind' is float, not int64");
  expect_refused([&] { decode<float>(*numbers, floats({1.0f})); }, "feature 'kind' has 1 numbers, not 3");
  expect_refused([&] { decode<float>(*numbers, floats({1.0f, NAN, 2.0f})); }, "feature 'kind' has the number nan");
  proto::Feature text;
  text.mutable_bytes_list()->add_value("x");
  expect_refused([&] { decode<float>(*numbers, text); }, "feature 'kind' is bytes, not int64 or float");
}

TEST(Decoder, AnImageOfTheOtherKindsChannelsIsNoneOfTheFirst) {
  EXPECT_THROW(grey_records(schema_of({2, 2, 3})), Error);
  EXPECT_THROW(planar_records(schema_of({3, 4, 1})), Error);
  EXPECT_THROW(grey_records(schema_of({})), Error);
}

/// A decoder for records of any length, which could be encoded images. Its results depend on the stream position, and
/// it inspects the whole dataset before the training.
class AnyLengthDecoder final : public RecordDecoder {
 public:
  explicit AnyLengthDecoder(bool draws) : RecordDecoder({1, 2, 1}, {.type = DType::u8, .shape = {3}}), draws_(draws) {}

  /// Writes the record's length and the position as pixels. Writes the length times 1, 2 and 3 as the target.
  void decode(std::span<const std::uint8_t> record, std::uint64_t position, std::span<std::uint8_t> image,
              std::span<std::byte> target) const override {
    image[0] = static_cast<std::uint8_t>(record.size());
    image[1] = static_cast<std::uint8_t>(position);
    for (std::size_t i = 0; i < 3; ++i) target[i] = static_cast<std::byte>((i + 1) * record.size());
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
  /// Opens `count` records. Record i has i + 1 bytes with the value 1.
  Dataset open(std::size_t count, bool draws, CacheMode cache = CacheMode::automatic) const {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) append_record(bytes, std::string(i + 1, '\1'));
    const std::vector<std::string> patterns = {write("set", bytes)};
    return Dataset::open(patterns, std::make_shared<AnyLengthDecoder>(draws), cache);
  }
};

TEST_F(OwnDecoderTest, ASetHasTheShapesOfItsDecoder) {
  const Dataset set = open(5, false);
  EXPECT_EQ(set.image_shape(), (ImageShape{1, 2, 1}));
  EXPECT_EQ(set.image_bytes(), 2u);
  EXPECT_EQ(set.target_spec(), (TargetSpec{DType::u8, {3}}));
  EXPECT_EQ(set.target_bytes(), 3u);
  EXPECT_TRUE(set.in_memory());
  EXPECT_EQ(set.image(4)[0], 5);
}

TEST_F(OwnDecoderTest, ADamagedRecordThatMayBeSkippedDoesNotPreventOpening) {
  std::string bytes;
  for (std::size_t i = 0; i < 3; ++i) append_record(bytes, std::string(i + 1, '\1'));
  bytes[bytes.size() - 6] ^= 1;  // damages the last record's data, which find_fault reads
  const std::vector<std::string> patterns = {write("damaged", bytes)};
  const auto decoder = std::make_shared<AnyLengthDecoder>(false);
  EXPECT_EQ(failure_of([&] { Dataset::open(patterns, decoder, CacheMode::none); }).code, ExitCode::data);
  EXPECT_EQ(Dataset::open(patterns, decoder, CacheMode::none, 1, {}, DamagedSamples::ignore).size(), 3u);
}

TEST_F(OwnDecoderTest, ImagesThatAreDrawnAreNotCached) {
  EXPECT_FALSE(open(5, true).in_memory());
  const Failure failure = failure_of([&] { open(5, true, CacheMode::memory); });
  EXPECT_EQ(failure.code, ExitCode::usage);
  EXPECT_THAT(failure.text, HasSubstr("--cache memory: each read of " + path("set") + " makes a new image"));
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

TEST_F(OwnDecoderTest, TargetsOfAnySizeComeWithTheirImages) {
  for (const CacheMode cache : {CacheMode::memory, CacheMode::none}) {
    const Dataset set = open(7, false, cache);
    BatchLoader loader(set, SampleOrder(7, 1, true), {.global_batch = 4, .batch_size = 4, .end = 18});
    while (loader.has_next()) {
      const Batch& batch = loader.next();
      ASSERT_EQ(batch.targets.size(), 4 * 3u);
      EXPECT_EQ(batch.valid_count(), loader.has_next() ? 4u : 2u);
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t k = 0; k < 3; ++k) {
          EXPECT_EQ(batch.targets_of(i, 1)[k], static_cast<std::byte>((k + 1) * batch.images[i][0]));
        }
      }
      EXPECT_TRUE(std::ranges::equal(batch.part(1, 1).targets, batch.targets.subspan(3, 3)));
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

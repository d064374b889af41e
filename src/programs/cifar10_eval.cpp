// cifar10_eval: prints the accuracy (precision @ 1) of a checkpoint of cifar10_train.
//
//   cifar10_eval --data 'data/cifar10/test-*' --checkpoint runs/cifar10
#include "carillon/app/mains.h"

int main(int argc, char** argv) {
  return carillon::evaluation_main("cifar10_eval", carillon::cifar10_program(), argc, argv);
}

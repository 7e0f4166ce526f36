/* Names that the C library declares at namespace scope, CUDA does not, and kernel text likes for its own: while the C library's
 * headers are read they get a prefix. host_names_back.h ends that.
 */
#define ssize_t graphcap_host_ssize_t
#define gamma graphcap_host_gamma
#define gammaf graphcap_host_gammaf
#define drem graphcap_host_drem
#define dremf graphcap_host_dremf
#define scalb graphcap_host_scalb
#define scalbf graphcap_host_scalbf
#define significand graphcap_host_significand
#define significandf graphcap_host_significandf
#define signgam graphcap_host_signgam
#define index graphcap_host_index
#define rindex graphcap_host_rindex
#define ffs graphcap_host_ffs
#define ffsl graphcap_host_ffsl
#define ffsll graphcap_host_ffsll
#define basename graphcap_host_basename
#define random graphcap_host_random
#define srandom graphcap_host_srandom
#define select graphcap_host_select
#define pselect graphcap_host_pselect

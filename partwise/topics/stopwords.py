"""English function words, too common to tell topics apart, and fragments that the tokeniser makes of network
addresses ("edu", "com"). Pieces of contractions ("don" of "don't") are here only where they are no words of
their own."""

from __future__ import annotations

__all__ = ["STOP_WORDS"]

_WORDS = """
a able about above according accordingly across actually after afterwards again against ago ain all allow
allows almost alone along already also although always am amid among amongst an and another any anybody
anyhow anymore anyone anything anyway anyways anywhere apart appear appears are aren around as aside ask
asking at away b back be became because become becomes becoming been before beforehand began begin begins
behind being below beneath beside besides best better between beyond bitnet both brief but by c came can
cannot cant cause causes certain certainly clearly com come comes consequently consider considering
contain containing contains could couldn couldnt d despite did didn didnt do does doesn doesnt doing done
dont down downwards due during e each edu eg either else elsewhere enough entirely especially et etc even
ever every everybody everyone everything everywhere ex exactly example except f far few fewer first five
followed following follows for former formerly forth four from further furthermore g gave get gets getting
give given gives giving go goes going gone got gotten h had hadn happens hardly has hasn hasnt have haven
havent having he hello hence her here hereafter hereby herein hereupon hers herself hi him himself his
hither hopefully how howbeit however i ie if ignored ii iii immediate in inasmuch inc indeed indicate
indicated indicates inner insofar instead into inward is isn isnt it its itself iv j just k keep keeps
kept knew know known knows l largely last lately later latter latterly least less lest let lets like liked
likely likewise little ll look looked looking looks low m made mainly make makes making many may maybe me
mean means meanwhile might mightn mine more moreover most mostly much must mustn my myself n namely nd
near nearly necessary need needn needs neither never nevertheless new next nine no nobody none nonetheless
noone nor normally not nothing now nowhere o obviously of off often oh ok okay old on once one ones only
onto or org other others otherwise ought our ours ourselves out outside over overall own p particular
particularly per perhaps placed please plus possible possibly presumably probably provides put q quite r
rather rd re really reasonably regarding regardless relatively respectively right s said same saw say
saying says second secondly see seeing seem seemed seeming seems seen self selves sent seven several shall
shan she should shouldn shouldnt since six so some somebody someday somehow someone something sometime
sometimes somewhat somewhere soon sorry still sub such sure t take taken taking tell tells ten tend tends
th than thank thanks thanx that thats the their theirs them themselves then thence there thereafter
thereby therefore therein theres thereupon these they theyre thing things think thinking third this
thorough thoroughly those though thought thoughts three through throughout thru thus till to together too
took toward towards tried tries truly try trying twice two u un under underneath unfortunately unless
unlike unlikely until unto up upon us use used useful uses using usually uucp v various ve very via viz vs
w want wanted wants was wasn wasnt way we welcome well went were weren werent what whatever when whence
whenever where whereafter whereas whereby wherein whereupon wherever whether which whichever while whilst
whither who whoever whole whom whomever whose why will willing wish with within without won wonder wont
would wouldn wouldnt x y yes yet you your youre yours yourself yourselves z zero
"""

STOP_WORDS = frozenset(_WORDS.split())
